// What the runtime notes of the saved tensors of a pair, for the report.
#include "hooks/coverage.h"
#include "hooks/runtime.h"

namespace ebbtide {

void Runtime::NoteUntaped(const at::Tensor& tensor) {
  if (!in_pair_ || owner_.load() != std::this_thread::get_id()) return;
  UntapedSave& save = tape_->untaped.emplace_back();
  if (tensor.has_storage()) {
    save.bytes = Bytes{static_cast<int64_t>(tensor.storage().nbytes())};
  }
  save.op = static_cast<int>(tape_->ops.size()) - 1;
  save.reason = WhyNotPlain(tensor);
}

void Runtime::NoteCoverage() {
  // Looking for all recipes takes time: once for every other tape, and again
  // when more is known of its ops.
  if (!settings_.budget || tape_->ops.empty()) return;
  if (report_.coverage && covered_ == tape_->hash &&
      covered_results_ == verifier_.results()) {
    return;
  }
  covered_ = tape_->hash;
  covered_results_ = verifier_.results();
  report_.coverage = FindCoverage(*tape_, residency_.CanSpill());
}

}  // namespace ebbtide
