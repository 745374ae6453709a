// The runtime of a training process: pair boundaries, what is recorded, what is
// held of each saved tensor, and what goes when memory is short.
//
// One per process, leaked at exit. Entered from dispatcher events, saved-tensor
// hooks and the allocator; everything below the first group takes or needs
// RuntimeLock. One thread at a time owns the open pair; saves of other threads
// are left to PyTorch.
#ifndef EBBTIDE_HOOKS_RUNTIME_H_
#define EBBTIDE_HOOKS_RUNTIME_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "hooks/recorder.h"
#include "hooks/report.h"
#include "hooks/residency.h"
#include "hooks/settings.h"
#include "hooks/tape.h"
#include "hooks/verify.h"

namespace ebbtide {

class Runtime final : public TapeListener {
 public:
  enum class State { kOff, kWatch, kIdle };

  static Runtime& Global();

  // Installs allocator, engine, recorder and fork handlers; once.
  absl::Status Start(const Settings& settings);
  // Steps aside for good: nothing new is managed, what is held stays readable.
  void TurnOff(const std::string& why);
  // The end of the process: writes the report, returns the closing line.
  std::string Finish();

  // Whether a saved tensor of this thread should come to us. Lock-free.
  bool WantsHooks() const;

  // Saved tensors.
  std::shared_ptr<Tape> TapeForPack();
  int Remember(Tape* tape, const at::Tensor& tensor);
  c10::Storage Fetch(const std::shared_ptr<Tape>& tape, int storage);
  void Forget(Tape* tape, int storage);

  // The allocator: evicts at least one storage, or returns false.
  bool Relieve(Bytes needed);

  // TapeListener.
  Tape* TapeFor(bool leaf) override;
  void OnOpBegin(Tape* tape, int op) override;
  void OnOpEnd(Tape* tape, int op,
               const std::vector<at::Tensor>& outputs) override;
  void OnForeignWrite(const at::Tensor& tensor) override;

 private:
  void BeginPair();
  void EndPair();
  void BeginBackward();
  void CloseStep();
  void NoteOutputs(Tape* tape, int op, const std::vector<at::Tensor>& outputs);

  std::atomic<State> state_ = State::kOff;
  Settings settings_;
  Verifier verifier_;
  Residency residency_;
  RunReport report_;

  std::shared_ptr<Tape> tape_;  // of the open pair, or of the last one
  bool in_pair_ = false;
  bool in_backward_ = false;
  std::thread::id owner_;
  // Copy of the storage that the running op overwrites, for the verifier.
  c10::Storage preimage_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUNTIME_H_
