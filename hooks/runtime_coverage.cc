// Coverage of a step's saved tensors, for the report.
#include <algorithm>
#include <utility>

#include "hooks/coverage.h"
#include "hooks/runtime.h"

namespace ebbtide {

void Runtime::NoteUntaped(const at::Tensor& tensor) {
  if (!in_pair_ || owner_.load() != std::this_thread::get_id()) return;
  UntapedSave save;
  if (tensor.has_storage()) {
    save.storage = tensor.storage().unsafeGetStorageImpl();
    save.bytes = Bytes{static_cast<int64_t>(tensor.storage().nbytes())};
    const auto is_same = [&](const UntapedSave& other) {
      return other.storage == save.storage;
    };
    if (std::any_of(tape_->untaped.begin(), tape_->untaped.end(), is_same)) {
      return;
    }
  }
  save.op = static_cast<int>(tape_->ops.size()) - 1;
  save.reason = WhyNotPlain(tensor);
  tape_->untaped.push_back(std::move(save));
}

void Runtime::NoteCoverage() {
  // Looking for all recipes takes time: once for every other tape, unless it is
  // an old acquaintance, and again when more is known of its ops.
  if (!settings_.budget || tape_->ops.empty()) return;
  if (report_.coverage && covered_ == tape_->hash &&
      covered_results_ == verifier_.results()) {
    return;
  }
  const SignatureBook* known = books_.Find(tape_->hash);
  if (covered_ != tape_->hash && known != nullptr && known->pairs > 1) return;
  covered_ = tape_->hash;
  covered_results_ = verifier_.results();
  report_.coverage = FindCoverage(*tape_, residency_.CanSpill());
}

}  // namespace ebbtide
