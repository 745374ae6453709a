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
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "hooks/backward_graph.h"
#include "hooks/device.h"
#include "hooks/lru_map.h"
#include "hooks/out_of_memory.h"
#include "hooks/plan_margin.h"
#include "hooks/plan_run.h"
#include "hooks/planning.h"
#include "hooks/progress.h"
#include "hooks/recognition.h"
#include "hooks/recorder.h"
#include "hooks/report.h"
#include "hooks/residency.h"
#include "hooks/settings.h"
#include "hooks/signature_book.h"
#include "hooks/steady.h"
#include "hooks/tape.h"
#include "hooks/verify.h"
#include "hooks/watch.h"
#include "hooks/weights.h"

namespace ebbtide {

class Runtime final : public TapeListener {
 public:
  // See docs/internals/steps.md. In kWatch plans may be in the making; kActive
  // and kSteady (kActive without the recorder) are those of the open pair, from
  // where its plan is recognised to where it turns out to be another pair. In
  // kResting pairs fit without a plan: the recorder is off, and large saved
  // tensors can be offloaded. In kIdle PyTorch saves its tensors itself.
  enum class State { kOff, kWatch, kIdle, kResting, kActive, kSteady };

  static Runtime& Global();

  // Installs allocator, engine, recorder and fork handlers; once.
  absl::Status Start(const Settings& settings);
  // Steps aside for good: nothing new is managed, what is held stays readable.
  void TurnOff(const std::string& why);
  // From now on the tensors of that kind of device are managed, and no others:
  // the program turns out to use it. `budget`: whether it has one.
  void MoveTo(Device* device, std::optional<Bytes> budget);
  // The one size that was given may turn out to be that of CUDA devices: it is
  // exceeded on the CPU without a word until something is trained there.
  void AwaitCuda() { may_leave_ = true; }
  // It has: nothing on the CPU has a budget or is managed from now on.
  void LeaveCpu();
  // The budgets that are held, in bytes: "cpu=1024B", or "cuda:0=..,cuda:1=..".
  std::string Budgets();
  // Budget less live bytes of the device that is current on this thread, below
  // 0 where more is alive; kNoBudget where it has none.
  Bytes RoomLeft();
  // Sets the budgets of `text` (EBBTIDE_BUDGET's form) for devices that have
  // one already. The next allocations evict what exceeds them, and plans are
  // made anew. InvalidArgument: `text` is malformed. FailedPrecondition:
  // ebbtide is off, or no budget can be changed.
  absl::Status ChangeBudgets(const std::string& text);
  // Profile of the last fully recorded step, or nullptr.
  std::shared_ptr<const Profile> LastProfile();
  // A sentence about the floor of the last recorded step; "" before there is
  // one.
  std::string KnownFloor();
  // A request of the program will fail: writes down what is alive, once per
  // process, and says where, for the error's text. "" where it does not, or
  // cannot. `name`: of the device, for people. Waits for no lock for long.
  std::string ReportOutOfMemory(int device, const std::string& name,
                                Bytes request);
  // In a catch clause, of what leaves to the program.
  [[noreturn]] void RaiseWithReport(const c10::OutOfMemoryError& error);
  // Returns what made each block: an op of the last step, "parameter" or
  // "input" of it; "" if unknown.
  std::vector<std::string> MakersOf(absl::Span<const void* const> blocks);
  // Returns the report so far, as JSON.
  std::string Report();
  // Python is about to have the address of the storage.
  void ExposeWeight(c10::StorageImpl* storage);
  // Python reads the bytes from now on, if it is one, or has read them.
  bool HoldWeight(c10::StorageImpl* storage);
  void ReleaseWeight(c10::StorageImpl* storage);
  bool IsWeight(c10::StorageImpl* storage);
  // The end of the process: writes the report, returns the closing line.
  std::string Finish();

  // The program's own hooks save a tensor: they may run anything in backward.
  void NoteForeignHooks() { has_foreign_hooks_ = true; }
  // True if saved tensors of this thread are to be packed by ebbtide.
  // Lock-free.
  bool WantsHooks() const;

  // Saved tensors. The position in the pair of what autograd is about to save
  // on this thread, or nullopt where PyTorch is to keep it; may begin a pair.
  std::optional<int> NextSave();
  std::shared_ptr<Tape> TapeForPack();
  // Takes the bytes of a tensor that is saved while a backward pass runs
  // (create_graph, a reentrant checkpoint), and returns where they are held;
  // nullptr: PyTorch keeps the tensor. Storages of the open pair stay in its
  // tape; all others can be offloaded but not recomputed.
  std::pair<std::shared_ptr<Tape>, int> RememberInBackward(
      const at::Tensor& tensor);
  int Remember(Tape* tape, const at::Tensor& tensor, int position);
  c10::Storage Fetch(const std::shared_ptr<Tape>& tape, int storage);
  void Forget(Tape* tape, int storage);
  // Autograd saves a tensor that no tape takes.
  void NoteUntaped(const at::Tensor& tensor);

  // The allocator: evicts at least one storage, or returns false.
  bool Relieve(const Pressure& pressure);
  // Nothing could be evicted: throws in strict mode, else prints a line once.
  void OnOverrun(Bytes wanted, Bytes budget);

  // TapeListener.
  Tape* TapeFor(absl::FunctionRef<bool()> may_begin) override;
  std::unique_ptr<WorkScope> OnOpBegin(Tape* tape, int op) override;
  void OnOpEnd(Tape* tape, int op, at::TensorList outputs) override;
  void OnFailure(const std::string& what) override { TurnOff(what); }
  // Without a budget nothing is evicted, and nothing has to be recomputed.
  bool WantsWrites() override { return settings_.budget.has_value(); }
  // Writes matter to saved tensors that are alive.
  bool LeavesOutOptimizers() override {
    return !in_pair_ && !optimizers_train_ &&
           (!settings_.budget || residency_.CountSavedTensors() == 0);
  }
  bool WantsOps() override {
    return IsManaging() && (!in_pair_ || state_ == State::kWatch);
  }
  void OnForeignWrite(const at::Tensor& tensor) override;
  void OnUnseenWrite(const at::Tensor& tensor) override;

 private:
  // The finished step, and the facts for which its time is recorded.
  struct StepNote {
    int64_t number = 0;      // number of the step in the report
    bool is_settled = true;  // its memory lies as that of later ones will
    std::shared_ptr<const StepMarks> marks;  // nullptr: the time is known
    uint64_t signature = 0;
    bool is_recorded = false;
    std::optional<StepWork> work;
    bool was_short = false;                // memory was short, without a plan
    std::shared_ptr<const TapePlan> plan;  // followed to its end
    // Bytes that planned addresses and what lies beside them take beyond live
    // ones, where they served or found no room.
    std::optional<Bytes> layout_waste;
    bool found_no_room = false;  // those addresses
  };
  void StartWeights();
  // Sees the memory of the device, and opens the tier below it.
  absl::Status Enter(Device* device);
  void Begin();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  std::string Here() const;
  OutOfMemory DescribeOutOfMemory(int device, const std::string& name,
                                  Bytes request);
  std::vector<std::string> WhatWouldHelp(const OutOfMemory& what) const;
  static const char* NameOf(State state);
  static double Seconds();  // now, by a steady clock
  // Ledger and budget of the device of the open or the last pair.
  Ledger& ledger() const { return Device::Get().ledger(device_); }
  Bytes budget() const { return ledger().budget(); }
  void OnMismatch(const Tape& tape, int storage);
  // The program frees what recipes rely on.
  void BeforeFree(void* block);
  void StepAside(const std::string& why);
  void AdaptTo(Bytes budget);
  void KeepProfile();
  void StartProgress();
  void ShowProgress(double now, bool at_once);
  // By one rank for all, or by each that it happens to.
  void Say(const std::string& line) const;
  void SayHere(const std::string& line) const;
  static std::string RankLabel();
  // This child of fork begins to train.
  void TrainInChild();
  void OnFirstPair();
  void OpenLog();
  // It trains nothing, and other processes of the job do.
  bool IsBystander() const;
  bool IsManaging() const {
    const State state = state_;
    return state != State::kOff && state != State::kIdle;
  }
  // The recorder is off, and saves are known by position.
  bool IsUnrecorded() const {
    const State state = state_;
    return state == State::kSteady || state == State::kResting;
  }
  void BeginPair();
  void EndPair();
  // Throws where a recipe has read what was written behind PyTorch's back.
  void SettleWitnesses();
  void BeginBackward();
  // Between the last pair and the next: the books of the one, what to do in
  // the other.
  void CloseStep();
  void BookStep();
  void BeginDeviceStep();
  // False while planned addresses may come to serve steps and do not yet.
  bool IsPlaced() const;
  void CloseLastStep();  // ends the last step of the process
  // True if its backward pass has ended: the step counts, though it lasts until
  // the next begins.
  bool IsStepOver() const;
  RunReport ReportSoFar() const;
  void LogQueued();
  void Learn();
  // `peak`: most that was alive in the last step; `bounded`: of what the budget
  // bounds.
  void Decide(Bytes peak, Bytes bounded);
  // Says, once per signature, that no plan can hold the budget, or why none was
  // found.
  void TellFloor(SignatureBook* book);
  std::string FloorText() const;
  void NoteLeastPeak(const Profile& profile);
  void RefreshVerified();
  void KeepTimes(SignatureBook* book);
  // True if CUPTI is to measure the next pair.
  bool WantsWork() const;
  void NoteWork();
  // Says, once, why times are not CUPTI's.
  void TellCupti();
  void PriceCandidates(SignatureBook* book);
  // True if memory was short since the last call; on devices with segments,
  // also if segments had to be released for others.
  bool WasPressed();
  // A margin that differs by no more is the same.
  Bytes LeastGain() const;
  // The last step followed its plan, and was short of memory.
  void TightenPlans(SignatureBook* book);
  // The last step followed its plan, and was not.
  void RefinePlans(SignatureBook* book);
  void Reprice(SignatureBook* book, const Planning::Made& made);
  void NoteStepTime(SignatureBook* book, bool evicted);
  void LearnStepTime(SignatureBook* book, double seconds) const;
  // Records the time of the step before the one that ends now; waits for it.
  void TakeQueuedTime();
  MeasuredProfile TakeProfile(const SignatureBook& book);
  // How the times of the last pair's ops scatter; those of identical layers are
  // made one (planner/time_spread.h).
  void SpreadTimes(const SignatureBook& book);
  Origin OriginOf(const SignatureBook& book) const;
  // Bytes that the next plan for these steps is to leave free, given the last
  // step.
  Bytes MarginOf(const SignatureBook& book) const;
  void AskForPlan(SignatureBook* book);
  void FetchPlans();
  void FetchPlan(Planning::Made* made);
  bool IsPrepared(const Planning::Made& made) const;
  std::vector<KnownTape> KnownTapes() const;
  // `last`: the plan that the pair before followed, or nullptr.
  bool ChooseSteady(const std::shared_ptr<const TapePlan>& last);
  // True if the pairs before allow that the next goes without the recorder.
  bool MayRestRecorder(const SignatureBook* book) const;
  // Like ChooseSteady, without a budget.
  bool RestRecorder();
  // At the end of a pair: whether the next is recorded, from its first op on.
  bool IsNextRecorded();
  // The plan to be followed in the next pair like that; nullptr where demand
  // eviction was faster, which refuses its plans.
  Candidate* ChooseCandidate(SignatureBook* book);
  std::vector<Experience> ExperiencesOf(bool moves) const;
  // In a pair: which plan is followed (hooks/runtime_follow.cc).
  void FollowOp(int op);
  // A backward op asks for a storage of the open pair.
  void FollowAsk(int storage);
  void FollowStage(int stage);
  void ObserveStage(int stage, torch::autograd::Node* node);
  // Ends the part of a backward pass that goes without the recorder.
  void ObserveAgain();
  bool FollowPlanFor(uint64_t signature, int ops);
  void EndPlanRun();
  // The candidate that is followed, or was in the last pair; nullptr if it is
  // not known any more.
  Candidate* Followed();
  Candidate* Find(uint64_t signature,
                  const std::shared_ptr<const TapePlan>& plan);
  void EndSteadyPair();
  void FreeWhatIsDue();
  void SpillWhatIsDue(int position);
  void RestoreWhatIsDue(const void* node);
  // `peak`: of what the budget bounds, in the last step.
  bool MayRest(Bytes peak) const;
  // The next pair is a resting one. In kIdle from now on where saved tensors
  // could not be offloaded, or the budget is far from needed. `was_resting`:
  // the last pair was one, too.
  void Rest(Bytes peak, bool was_resting);
  int QuietPairsToRest() const;
  // The step that has ended followed the plan to its end.
  void ReportFollowed(const SignatureBook& book, Candidate* candidate);
  // Time of a step outside its pair, which takes `base` with nothing evicted.
  static Time RestTime(const SignatureBook& book, Time base);
  // Time of a whole step that follows the plan.
  static double PredictedSeconds(const SignatureBook& book,
                                 const TapePlan& plan);
  void Wake();
  void NoteCoverage();
  // Books what could not be dropped of a pair that is over its budget.
  void NoteKept();
  void FillReport();
  // The closing line, without a newline; "" where none is wanted.
  std::string LastLine() const;
  // Renews the closing line and the report that are written where a signal ends
  // the process. Takes a thousandth of the time.
  void RefreshLastWords(double now);
  std::string WhyNotBetter() const;
  void BeginWrites(Tape* tape, int op);
  bool IsCapturing() const;
  bool WantsMarks() const;
  void SettleProofs();
  int StorageToSave(Tape* tape, const at::Tensor& tensor) const;
  bool IsMoot(const Tape& tape, int op) const;
  bool IsToBeTried(const TapeOp& op) const;
  bool HasRoomForTrial(const Tape& tape, const TapeOp& op) const;
  void NoteOp(Tape* tape, int op, at::TensorList outputs);
  void NoteCopy(Tape* tape, int op, int copy);
  void NoteOutputs(Tape* tape, int op, at::TensorList outputs);
  // Events written into the trace.
  void LogSave(TapeStorage* storage, const at::Tensor& tensor,
               const void* parameter);
  void LogUnpack(const TapeStorage& storage);
  void LogPlan();

  std::atomic<State> state_ = State::kOff;
  // Idle ends when live bytes pass this.
  std::atomic<int64_t> idle_until_ = 0;
  Settings settings_;
  Proofs proofs_;
  Verifier verifier_{&proofs_};
  int64_t results_before_ = 0;  // results of the verifier when the pair began
  Residency residency_;
  Weights weights_;
  Watch watch_{&residency_};
  Planning planning_;
  std::vector<Planning::Made> made_;  // wait for host memory
  // Executors for the open pair; at most one is set.
  std::unique_ptr<PlanRun> plan_run_;
  std::unique_ptr<SteadyRun> steady_run_;
  RunReport report_;
  std::string off_because_;
  std::string timeline_;  // ends the closing line of a run that was recorded
  std::atomic<bool> may_leave_ = false;
  int64_t faults_of_children_ = 0;  // at the start: torch 2.15 asks ldconfig
  std::filesystem::file_time_type started_at_;
  double last_words_due_ = 0;  // seconds
  bool is_started_ = false;    // something was to be managed, so far
  bool has_trained_ = false;   // a pair has begun
  bool is_quiet_ = false;      // a child of fork, as long as it does not train
  std::atomic<bool> is_new_child_ = false;  // and may begin to

  std::shared_ptr<Tape> tape_;  // tape of the open pair, or of the last one
  std::atomic<bool> in_pair_ = false;
  std::atomic<int> device_ = 0;  // index of the one that the pair began on
  bool in_backward_ = false;
  // The recorder is off until the backward pass is over.
  bool is_unobserved_ = false;
  BackwardGraph graph_;  // nodes that the open pair reached
  // The program's own hooks have saved tensors of the open pair.
  std::atomic<bool> has_foreign_hooks_ = false;
  // A backward pass, or a thread beside it, has written what a tape holds.
  bool writes_in_backward_ = false;
  uint64_t covered_ = 0;  // hash of the tape that the report's coverage is of,
  int64_t covered_results_ = 0;  // and of the verifier, when it was found
  std::atomic<int64_t> foreign_saves_ = 0;  // since the last pair began
  // Storages that backward passes have saved since the open or last pair
  // began, but those that the pair holds itself; nullptr: there are none.
  std::shared_ptr<Tape> backward_tape_;
  // Counters of the open pair.
  int saves_ = 0;
  uint64_t first_sequence_ = 0;
  int steady_pairs_ = 0;  // since the last recorded one
  // The open pair goes without the recorder only because that was off when it
  // began: the next is recorded.
  bool rests_once_more_ = false;
  // The last pair ran to the end of its backward, and to that of its plan.
  bool complete_ = false;
  bool as_planned_ = false;
  // It began in the middle of a step, where that woke us or the recorder was
  // off.
  bool is_partial_ = false;
  // A pair has begun while an optimizer's step went without the recorder.
  bool optimizers_train_ = false;
  double step_seconds_ = 0;  // from the begin of the last pair to the next
  StepNote note_;
  std::atomic<bool> was_relieved_ = false;  // since the last pair was over
  int unplaced_steps_ = 0;  // in a row, as planned at addresses that are not
  bool refusal_of_cupti_told_ = false;
  int64_t give_backs_ = 0;  // segments given back until then
  // Signature of the last pair; 0: it was not complete, or is unknown.
  uint64_t signature_ = 0;
  int streak_ = 0;     // how many in a row had it
  int64_t pairs_ = 0;  // complete ones, with a signature
  LruMap<SignatureBook> books_{1};
  Recognition recognition_;  // recognises the open pair
  uint64_t followed_ = 0;    // signature that its plan, if any, is for
  double foreseen_ = 0;      // seconds of its step, by that plan
  // The book of the plan that the open pair follows, for times of its ops.
  const SignatureBook* expected_ = nullptr;
  std::shared_ptr<const TapePlan> followed_plan_;
  // The plan of the last steady or resting pair.
  std::shared_ptr<const SteadyPlan> steady_plan_;
  bool plans_may_spill_ = true;
  uint64_t test_plans_made_ = 0;
  int64_t evictions_ = 0;  // evictions in all pairs before the open one
  int quiet_pairs_ = 0;    // in a row without an eviction
  int pressed_rests_ = 0;  // rests that a shortage of memory has ended
  std::atomic<bool> overrun_told_ = false;
  std::atomic<bool> out_of_memory_told_ = false;
  bool overran_ = false;  // the last step
  bool grew_ = false;     // the last step reserved more than any before
  Bytes highest_peak_{};
  std::shared_ptr<const Profile> last_profile_;
  Bytes profiled_peak_{};             // peak of the largest step that has a
                                      // profile
  std::optional<Progress> progress_;  // nullopt: none is shown
  Bytes waste_{};  // bytes that the allocator had beyond live ones at that peak
  std::string least_peak_;  // least peak of the last profile, as a sentence
  std::string floor_;       // last printed text about the floor,
  Bytes highest_floor_{};   // for the highest one
  bool refusal_told_ = false;
  double step_began_ = 0;  // seconds; 0: no pair yet
  std::atomic<std::thread::id> owner_;
  const void* unpacking_ = nullptr;              // the node in the trace last,
  std::string unpacking_name_;                   // and its name
  std::shared_ptr<const TapePlan> logged_plan_;  // in the trace last
  // Copy of the storage that the running op overwrites, for the verifier.
  c10::Storage preimage_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUNTIME_H_
