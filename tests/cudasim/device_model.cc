#include "tests/cudasim/device_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace cudasim {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kUs = 1e3;
constexpr double kMs = 1e6;

class Entries {
 public:
  Entries(const nlohmann::json& values, const std::string& path,
          std::string* error)
      : values_(values), path_(path), error_(error) {}

  double Number(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end()) return Refuse(name, "is missing");
    if (!found->is_number()) return Refuse(name, "is no number");
    const double value = found->get<double>();
    if (!std::isfinite(value) || value <= 0) {
      return Refuse(
          name, "is " + found->dump() + "; expected a positive, finite number");
    }
    return value;
  }

  // Entries PREFIX_<n>MiB_<unit> for those sizes.
  SizeCurve Curve(const std::string& prefix, const std::string& unit,
                  const std::vector<int>& mebibytes) {
    std::vector<std::pair<double, double>> points;
    for (const int size : mebibytes) {
      const std::string name =
          prefix + "_" + std::to_string(size) + "MiB_" + unit;
      points.emplace_back(size * kMiB,
                          Number(name) * (unit == "us" ? kUs : kMs));
    }
    return SizeCurve(std::move(points));
  }

  std::string Text(const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end() && found->is_string()) return *found;
    Refuse(name, found == values_.end() ? "is missing" : "is no text");
    return "";
  }

 private:
  double Refuse(const std::string& name, const std::string& why) {
    if (error_->empty()) *error_ = path_ + ": " + name + " " + why;
    return 1;
  }

  const nlohmann::json& values_;
  const std::string& path_;
  std::string* const error_;
};

}  // namespace

SizeCurve::SizeCurve(std::vector<std::pair<double, double>> points)
    : points_(std::move(points)) {
  for (size_t i = points_.size() - 1; i > 0; --i) {
    points_[i - 1].second = std::min(points_[i - 1].second, points_[i].second);
  }
}

double SizeCurve::At(uint64_t bytes) const {
  const auto at = static_cast<double>(bytes);
  if (points_.size() == 1 || at <= points_.front().first) {
    return points_.front().second;
  }
  auto high = std::find_if(points_.begin() + 1, points_.end() - 1,
                           [at](const auto& p) { return at <= p.first; });
  const auto low = high - 1;
  const double slope =
      (high->second - low->second) / (high->first - low->first);
  return low->second + slope * (at - low->first);
}

std::optional<DeviceModel> ReadDeviceModel(const std::string& path,
                                           std::string* error) {
  error->clear();
  std::ifstream file(path);
  if (!file) {
    *error = path + ": cannot be read";
    return std::nullopt;
  }
  nlohmann::json values;
  try {
    values = nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& fault) {
    *error = path + ": " + fault.what();
    return std::nullopt;
  }
  if (!values.is_object()) {
    *error = path + ": expected an object of measurements";
    return std::nullopt;
  }
  Entries e(values, path, error);
  const std::vector<int> sizes = {2, 20, 64, 256, 1024, 4096};
  const std::vector<int> host_sizes = {16, 64, 256};
  DeviceModel model{
      .name = e.Text("name"),
      .multiprocessors = static_cast<int>(e.Number("sms")),
      .l2_bytes = static_cast<int>(e.Number("l2")),
      .malloc = e.Curve("cudaMalloc", "us", sizes),
      .free = e.Curve("cudaFree", "us", sizes),
      .host_register = e.Curve("hostRegister", "ms", host_sizes),
      .host_unregister = e.Curve("hostUnregister", "ms", host_sizes),
      .touch = e.Curve("touch", "ms", host_sizes),
      .host_alloc_per_byte =
          e.Number("cudaHostAlloc_1GiB_ms") * kMs / (1024 * kMiB),
      .mem_get_info = e.Number("cudaMemGetInfo_us") * kUs,
      .launch = e.Number("launch_us") * kUs,
      .event_record = e.Number("event_record_us") * kUs,
      .timing_event_record = e.Number("timing_event_record_us") * kUs,
      .event_query = e.Number("event_query_us") * kUs,
      .stream_wait = e.Number("stream_wait_us") * kUs,
      .to_host = e.Number("d2h_1024MiB_GBps"),
      .to_device = e.Number("h2d_1024MiB_GBps"),
      .both_ways = e.Number("both_16MiB_GBps_each")};
  model.copy_start =
      std::max(0.0, kMiB / e.Number("d2h_1MiB_GBps") - kMiB / model.to_host);
  constexpr double kSide = 8192;
  model.product_flops =
      2 * kSide * kSide * kSide / (e.Number("mm8192_bf16_ms") * kMs);
  model.memory_bytes = 2 * 512 * kMiB / (e.Number("gelu512MiB_ms") * kMs);
  if (!error->empty()) return std::nullopt;
  return model;
}

double DeviceModel::CallTime(std::string_view function) const {
  const bool is_product = function.starts_with("cublas");
  if (is_product || function == "cudaLaunchKernel" ||
      function == "cudaMemcpyAsync" || function == "cudaMemsetAsync" ||
      function == "cudaMemcpyPeerAsync" || function == "cudaGraphLaunch") {
    return launch;
  }
  if (function == "cudaEventRecord") return event_record;
  if (function == "cudaStreamWaitEvent") return stream_wait;
  // The last two were not measured: they ask as the first do, or set up as much
  // as these look at.
  if (function == "cudaEventQuery" || function == "cudaStreamQuery" ||
      function == "cudaEventElapsedTime" ||
      function == "cudaEventCreateWithFlags") {
    return event_query;
  }
  if (function == "cudaMemGetInfo") return mem_get_info;
  return 0;
}

bool IsLookup(std::string_view function) {
  static const auto* const names = new std::unordered_set<std::string_view>{
      "cudaGetDevice",
      "cudaSetDevice",
      "cudaGetDeviceCount",
      "cudaDeviceGetAttribute",
      "cudaFuncGetAttributes",
      "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
      "cudaPointerGetAttributes",
      "cudaStreamGetCaptureInfo",
      "cudaStreamGetPriority",
      "cudaStreamIsCapturing",
      "cudaThreadExchangeStreamCaptureMode"};
  return names->contains(function);
}

}  // namespace cudasim
