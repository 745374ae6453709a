#include "hooks/list_ops.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "hooks/device.h"
#include "hooks/weight_pins.h"

namespace ebbtide {
namespace {

using torch::jit::Stack;

constexpr auto kKey = c10::DispatchKey::BackendSelect;

// Divisor of the budget that bounds one slice; the rest is for the op's
// outputs, copies in flight and activations.
constexpr int64_t kSlicesPerBudget = 8;

Weights* weights = nullptr;

bool IsForeach(absl::string_view name) {
  return absl::StartsWith(name, "aten::_foreach_");
}

// Copies have a test of their own, which allows more.
bool MayGoOneByOne(absl::string_view name) {
  return IsForeach(name) && !absl::StartsWith(name, "aten::_foreach_copy");
}

bool IsListOp(absl::string_view name) {
  return IsForeach(name) || absl::StartsWith(name, "aten::_fused_ada") ||
         absl::StartsWith(name, "aten::_fused_sgd") ||
         absl::StartsWith(name, "aten::_amp_foreach_");
}

// The lists' common length; nullopt where they have none. An empty list is one
// that the op does without.
std::optional<size_t> PlacesOf(c10::ArrayRef<c10::IValue> arguments) {
  std::optional<size_t> places;
  for (const c10::IValue& value : arguments) {
    if (!value.isList() || value.toListRef().empty()) continue;
    const size_t size = value.toListRef().size();
    if (places && *places != size) return std::nullopt;
    places = size;
  }
  return places;
}

// A tensor of one number for each place. Ops that take one number take it
// without a dimension.
bool IsPacked(const c10::IValue& value, size_t places) {
  return value.isTensor() && value.toTensor().defined() &&
         value.toTensor().dim() == 1 &&
         value.toTensor().size(0) == static_cast<int64_t>(places);
}

// True if a `_foreach_` op processes the lists one by one (ForeachUtils.h). The
// op itself rejects lists of unequal lengths.
bool GoesOneByOne(c10::ArrayRef<c10::IValue> arguments) {
  if (!PlacesOf(arguments)) return false;
  std::vector<std::vector<at::Tensor>> lists;
  for (const c10::IValue& value : arguments) {
    if (value.isTensorList()) lists.push_back(value.toTensorVector());
    if (value.isTensorList() && lists.back().empty()) return false;
  }
  return !at::native::can_use_fast_route(
      std::vector<at::TensorList>(lists.begin(), lists.end()));
}

// Manageable bytes at one position of all lists.
Bytes BytesAt(c10::ArrayRef<c10::IValue> arguments, size_t place) {
  Bytes bytes{};
  for (const c10::IValue& value : arguments) {
    if (!value.isTensorList() || value.toListRef().empty()) continue;
    const c10::IValue& item = value.toListRef()[place];
    for (const c10::Storage& storage : LargeStorages(item)) {
      bytes += Device::Get().SizeOnDevice(storage.nbytes());
    }
  }
  return bytes;
}

// Half-open.
struct Slice {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// The slices that a call with these arguments runs in, each of at most `limit`
// bytes of tensors that can be managed, or of one place. One slice over all
// where the arguments do not go by places.
std::vector<Slice> SlicesOf(c10::ArrayRef<c10::IValue> arguments, Bytes limit) {
  const std::optional<size_t> places = PlacesOf(arguments);
  if (!places) return {{0, 0}};
  std::vector<Slice> slices;
  Slice slice;
  Bytes bytes{};
  for (size_t i = 0; i < *places; ++i) {
    const Bytes more = BytesAt(arguments, i);
    if (slice.begin < i && bytes + more > limit) {
      slices.push_back({std::exchange(slice.begin, i), i});
      bytes = Bytes{};
    }
    bytes += more;
  }
  slices.push_back({slice.begin, *places});
  return slices;
}

// The part of an argument that goes with the slice of so many places.
c10::IValue Part(const c10::IValue& value, Slice slice, size_t places) {
  if (slice == Slice{0, places}) return value;
  if (IsPacked(value, places)) {
    return value.toTensor().narrow(
        0, static_cast<int64_t>(slice.begin),
        static_cast<int64_t>(slice.end - slice.begin));
  }
  if (!value.isList() || value.toListRef().empty()) return value;
  const c10::List<c10::IValue> whole = value.toList();
  c10::impl::GenericList part(whole.elementType());
  for (size_t i = slice.begin; i < slice.end; ++i) part.push_back(whole.get(i));
  return part;
}

// Adds what a slice returned to what the slices before it did.
void Join(Stack part, Stack* results) {
  if (results->empty()) {
    *results = std::move(part);
    return;
  }
  for (size_t i = 0; i < part.size(); ++i) {
    c10::List<c10::IValue> joined = (*results)[i].toList();
    for (const c10::IValue& item : part[i].toListRef()) joined.push_back(item);
  }
}

bool IsListOfTensors(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::ListType::ofTensors());
}

// True if the results of slices can be joined.
bool ReturnsLists(const c10::FunctionSchema& schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(),
                     IsListOfTensors);
}

bool TakesList(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     IsListOfTensors);
}

// In front of an op's kernel for a device.
class Sliced final : public c10::OperatorKernel {
 public:
  explicit Sliced(const c10::OperatorHandle& op)
      : may_go_one_by_one_(MayGoOneByOne(op.operator_name().name)),
        returns_lists_(ReturnsLists(op.schema())),
        has_cpu_kernel_(op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) const {
    const auto below =
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
    const size_t count = op.schema().arguments().size();
    if (IsLoop(torch::jit::last(*stack, count))) {
      return op.redispatchBoxed(below, stack);
    }
    const Stack arguments = torch::jit::pop(*stack, count);
    const std::vector<Slice> slices = Slices(arguments);
    Stack results;
    for (const Slice slice : slices) {
      Stack part;
      for (const c10::IValue& value : arguments) {
        part.push_back(Part(value, slice, slices.back().end));
      }
      WeightPins pins(weights, part);
      op.redispatchBoxed(below, &part);
      pins.NoteOutputs(part);
      Join(std::move(part), &results);
    }
    for (c10::IValue& value : results) stack->push_back(std::move(value));
  }

 private:
  bool IsLoop(c10::ArrayRef<c10::IValue> arguments) const {
    if (Device::Get().type() == c10::DeviceType::CPU && !has_cpu_kernel_) {
      return true;
    }
    return may_go_one_by_one_ && GoesOneByOne(arguments);
  }

  std::vector<Slice> Slices(c10::ArrayRef<c10::IValue> arguments) const {
    if (!weights->is_on() || !returns_lists_) {
      return {{0, PlacesOf(arguments).value_or(0)}};
    }
    const Device& device = Device::Get();
    const Bytes budget = device.ledger(device.CurrentIndex()).budget();
    return SlicesOf(arguments, Bytes{Count(budget) / kSlicesPerBudget});
  }

  const bool may_go_one_by_one_;
  const bool returns_lists_;
  const bool has_cpu_kernel_;
};

// By schema, for the observer, which is asked of every op.
using Names =
    absl::flat_hash_set<c10::OperatorName, std::hash<c10::OperatorName>>;
Names& SlicedNames() {
  static auto* const names = new Names;
  return *names;
}

}  // namespace

bool IsSliced(const c10::OperatorName& op) {
  // Most are ruled out by how they begin.
  return IsListOp(op.name) && SlicedNames().contains(op);
}

void InstallSlicedOps(Weights* new_weights) {
  weights = new_weights;
  // For good: other threads may be inside.
  static auto* const kernels = new std::vector<c10::RegistrationHandleRAII>;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!IsListOp(name.name)) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !TakesList(op->schema())) continue;
    kernels->push_back(
        dispatcher.registerImpl(name, kKey,
                                c10::KernelFunction::makeFromBoxedFunctor(
                                    std::make_unique<Sliced>(*op)),
                                std::nullopt, nullptr, "ebbtide"));
    SlicedNames().insert(name);
  }
}

}  // namespace ebbtide
