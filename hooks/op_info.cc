#include "hooks/op_info.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "hooks/device.h"

namespace ebbtide {
namespace {

bool In(const absl::flat_hash_set<absl::string_view>& set,
        const std::string& name) {
  return set.contains(name);
}

// Exactly one argument, the first, is written, and the op returns it.
bool IsPlainInPlace(const c10::FunctionSchema& schema) {
  int written = 0;
  for (const auto& argument : schema.arguments()) {
    written += argument.alias_info() && argument.alias_info()->isWrite();
  }
  const auto& first = schema.arguments().front();
  return written == 1 && first.alias_info() && first.alias_info()->isWrite() &&
         schema.returns().size() == 1;
}

// Sizes of what is made of no tensor may follow from numbers (arange), and
// those of a resampled image from a list of them.
uint64_t NumbersOf(const c10::FunctionSchema& schema) {
  uint64_t numbers = 0;
  bool has_tensor = false;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::TypePtr type = arguments[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      type = optional->getElementType();
    }
    has_tensor |= type->kind() == c10::TypeKind::TensorType;
    const bool is_number = type->kind() == c10::TypeKind::NumberType ||
                           type->kind() == c10::TypeKind::FloatType;
    if (is_number && i < 64) numbers |= uint64_t{1} << i;
  }
  return has_tensor ? numbers : 0;
}

bool ReturnsNewTensors(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    const auto kind = result.type()->kind();
    const bool tensors =
        kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
    const bool view = result.alias_info() && !result.alias_info()->isWrite();
    if (tensors && !view) return true;
  }
  return false;
}

void MakeOpaque(const char* why, OpInfo* info) {
  info->opaque = true;
  info->why_opaque = why;
}

// Ops that may not be recomputed on CUDA, though they may on the CPU.
void ReadCudaRules(const std::string& base, OpInfo* info) {
  // They add with atomics, in whichever order (PyTorch's own list, in the
  // documentation of torch.use_deterministic_algorithms).
  static const auto& kRacing =
      *new absl::flat_hash_set<absl::string_view>{"index_add",
                                                  "index_add_",
                                                  "index_put",
                                                  "index_put_",
                                                  "_index_put_impl_",
                                                  "index_reduce",
                                                  "index_reduce_",
                                                  "put",
                                                  "put_",
                                                  "scatter_add",
                                                  "scatter_add_",
                                                  "scatter_reduce",
                                                  "scatter_reduce_",
                                                  "bincount",
                                                  "histc",
                                                  "kthvalue",
                                                  "median",
                                                  "nll_loss2d_forward",
                                                  "cumsum",
                                                  "cumsum_",
                                                  "_ctc_loss"};
  static const auto& kOpaque = *new absl::flat_hash_set<absl::string_view>{
      "_cudnn_rnn", "batch_norm_update_stats", "batch_norm_gather_stats",
      "batch_norm_gather_stats_with_counts"};
  if (In(kRacing, base)) MakeOpaque("adds in any order on CUDA", info);
  if (In(kOpaque, base)) MakeOpaque("writes unseen by its schema", info);
}

void ReadTags(const c10::OperatorHandle& handle, OpInfo* info) {
  for (at::Tag tag : handle.getTags()) {
    switch (tag) {
      case at::Tag::nondeterministic_seeded:
        info->random = true;
        break;
      case at::Tag::pointwise:
        info->pointwise = true;
        break;
      case at::Tag::dynamic_output_shape:
        info->dynamic = true;
        break;
      case at::Tag::nondeterministic_bitwise:
        MakeOpaque("is called nondeterministic by PyTorch", info);
        break;
      default:
        break;
    }
  }
}

OpInfo* MakeOpInfo(const c10::OperatorName& operator_name) {
  static const auto& kOverwriting = *new absl::flat_hash_set<absl::string_view>{
      "bernoulli_", "fill_",   "zero_",       "uniform_",
      "normal_",    "random_", "exponential_"};
  // These replace or resize storage, or write what their schema does not name.
  static const auto& kOpaque = *new absl::flat_hash_set<absl::string_view>{
      "set_", "resize_", "_batch_norm_with_update", "rrelu_with_noise",
      "rrelu_with_noise_"};
  static const auto& kBatchNorm = *new absl::flat_hash_set<absl::string_view>{
      "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"};

  auto handle = c10::Dispatcher::singleton().findOp(operator_name);
  if (!handle) return nullptr;
  auto* info = new OpInfo{.handle = *handle};
  const std::string base =
      operator_name.name.substr(operator_name.name.find("::") + 2);
  info->name = operator_name.overload_name.empty()
                   ? base
                   : base + "." + operator_name.overload_name;
  info->composite = handle->hasKernelForDispatchKey(
      c10::DispatchKey::CompositeImplicitAutograd);
  info->autocast =
      handle->hasKernelForDispatchKey(Device::Get().autocast_key());
  ReadTags(*handle, info);
  const c10::FunctionSchema& schema = handle->schema();
  info->computes = ReturnsNewTensors(schema);
  info->mutates = schema.is_mutable();
  info->batch_norm = In(kBatchNorm, base);
  info->numbers = NumbersOf(schema);
  if (info->mutates && !info->batch_norm && !IsPlainInPlace(schema)) {
    MakeOpaque("writes other arguments than its first", info);
  }
  info->uninitialized = absl::StrContains(base, "empty");
  info->overwrites = In(kOverwriting, base);
  if (info->uninitialized) MakeOpaque("gives memory without a value", info);
  if (In(kOpaque, base)) MakeOpaque("writes unseen by its schema", info);
  if (Device::Get().is_async()) ReadCudaRules(base, info);
  // The script's own ops may count, log or draw: they run as often as it says.
  if (!absl::StartsWith(operator_name.name, "aten::")) {
    MakeOpaque("is not PyTorch's", info);
  }
  return info;
}

}  // namespace

namespace {

// By the name's address, which is stable and unique per overload: it lies in
// the operator's registered schema.
absl::flat_hash_map<const char*, OpInfo*>& Cache() {
  static auto& cache = *new absl::flat_hash_map<const char*, OpInfo*>;
  return cache;
}

}  // namespace

void ForgetOpInfo() { Cache().clear(); }

const OpInfo* FindOpInfo(const at::RecordFunction& fn) {
  auto [entry, inserted] = Cache().try_emplace(fn.name(), nullptr);
  if (inserted) {
    if (const auto name = fn.operator_name()) entry->second = MakeOpInfo(*name);
  }
  return entry->second;
}

bool Writes(const OpInfo& op, int index) {
  if (!op.mutates) return false;
  const auto& arguments = op.handle.schema().arguments();
  return index < static_cast<int>(arguments.size()) &&
         arguments[index].alias_info() &&
         arguments[index].alias_info()->isWrite();
}

}  // namespace ebbtide
