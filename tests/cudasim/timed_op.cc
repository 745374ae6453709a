#include "tests/cudasim/timed_op.h"

#include <algorithm>
#include <string_view>

namespace cudasim {
namespace {

// Single precision without TF32 runs on other units (67 of 990 TFLOP/s, by
// NVIDIA's data sheet of the H100 SXM).
constexpr double kSinglePrecision = 990.0 / 67;
// Attention reaches less of a product's rate than a product does, and backward
// runs two and a half times as many operations; by the traces of
// tests/data/h100.
constexpr double kAttention = 1.8;
constexpr double kAttentionBackward = 2.5 * 3.2;

std::string_view NameOf(const c10::OperatorHandle& op) {
  std::string_view name = op.operator_name().name;
  const size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

void Append(const at::Tensor& tensor, std::string* key) {
  *key += ' ';
  *key += c10::toString(tensor.scalar_type());
  *key += '[';
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (i > 0) *key += ',';
    *key += std::to_string(tensor.size(i));
  }
  *key += ']';
}

// An expanded tensor has fewer bytes than elements.
double BytesOf(const at::Tensor& tensor) {
  if (!tensor.is_cuda() || !tensor.has_storage()) return 0;
  return static_cast<double>(
      std::min<uint64_t>(tensor.nbytes(), tensor.storage().nbytes()));
}

double Elements(const at::Tensor& tensor) {
  return static_cast<double>(tensor.numel());
}

// Operations of a product of the last two dimensions.
double ProductFlops(const at::Tensor& left, const at::Tensor& right) {
  return 2 * Elements(left) * static_cast<double>(right.size(-1));
}

bool IsCausal(const c10::OperatorHandle& op, Values inputs) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "is_causal") return inputs[i].toBool();
  }
  return false;
}

double AttentionFlops(const c10::OperatorHandle& op, Values inputs,
                      size_t query) {
  const at::Tensor& q = inputs[query].toTensor();
  const at::Tensor& k = inputs[query + 1].toTensor();
  const double flops = 4 * Elements(q) * static_cast<double>(k.size(-2));
  return IsCausal(op, inputs) ? flops / 2 : flops;
}

// As many operations of a bfloat16 product take as long.
double FlopsOf(const c10::OperatorHandle& op, Values inputs) {
  const std::string_view name = NameOf(op);
  const auto tensor = [&](size_t i) { return inputs[i].toTensor(); };
  double flops = 0;
  size_t first = 0;
  if (name.find("scaled_dot_product") != std::string_view::npos) {
    const bool is_backward = name.ends_with("_backward");
    first = is_backward ? 1 : 0;
    flops = AttentionFlops(op, inputs, first) *
            (is_backward ? kAttentionBackward : kAttention);
  } else if (name == "mm" || name == "bmm") {
    flops = ProductFlops(tensor(0), tensor(1));
  } else if (name == "addmm" || name == "baddbmm" ||
             name == "_addmm_activation") {
    first = 1;
    flops = ProductFlops(tensor(1), tensor(2));
  } else {
    return 0;
  }
  return tensor(first).scalar_type() == at::kFloat ? flops * kSinglePrecision
                                                   : flops;
}

}  // namespace

std::string OpKey(const c10::OperatorHandle& op, Values inputs) {
  std::string key(NameOf(op));
  if (!op.operator_name().overload_name.empty()) {
    key += "." + op.operator_name().overload_name;
  }
  for (const c10::IValue& value : inputs) {
    if (value.isTensor()) {
      if (value.toTensor().is_cuda()) Append(value.toTensor(), &key);
      continue;
    }
    int64_t count = 0;
    int64_t elements = 0;
    const char* type = "";
    ForEachTensor(value, [&](const at::Tensor& t) {
      if (!t.is_cuda()) return;
      ++count;
      elements += t.numel();
      type = c10::toString(t.scalar_type());
    });
    if (count == 0) continue;
    key += " [" + std::to_string(count) + ": " + type + " " +
           std::to_string(elements) + "]";
  }
  return key;
}

uint64_t OpHash(const c10::OperatorHandle& op, Values inputs) {
  uint64_t hash = std::hash<c10::OperatorHandle>()(op);
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  for (const c10::IValue& value : inputs) {
    ForEachTensor(value, [&](const at::Tensor& t) {
      if (!t.is_cuda()) return;
      mix(static_cast<uint64_t>(t.scalar_type()) + 1);
      for (const int64_t size : t.sizes()) mix(size);
    });
    mix(~uint64_t{0});
  }
  return hash;
}

double Roofline(const Roof& roof, const c10::OperatorHandle& op, Values inputs,
                Values outputs) {
  double bytes = 0;
  double largest = 0;
  const auto add = [&](const c10::IValue& value) {
    ForEachTensor(value, [&](const at::Tensor& t) {
      bytes += BytesOf(t);
      largest = std::max(largest, BytesOf(t));
    });
  };
  for (const c10::IValue& value : inputs) add(value);
  if (outputs.empty()) bytes += largest;
  for (const c10::IValue& value : outputs) add(value);
  return std::max(bytes / roof.bytes, FlopsOf(op, inputs) / roof.flops);
}

}  // namespace cudasim
