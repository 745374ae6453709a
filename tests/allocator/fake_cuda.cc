#include "tests/allocator/fake_cuda.h"

#include <utility>

#include "gtest/gtest.h"

namespace ebbtide {
int& FakeCuda::current_device() {
  thread_local int device = 0;
  return device;
}

cudaStreamCaptureMode& FakeCuda::capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t& FakeCuda::last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

FakeCuda::FakeCuda() {
  api_ = Table();
  EXPECT_EQ(live_, nullptr);
  live_ = this;
  last_error() = cudaSuccess;
  current_device() = 0;
  capture_mode() = cudaStreamCaptureModeGlobal;
  for (int device = 0; device < 2; ++device) {
    defaults_.push_back(&At(NewStream(device)));
  }
}

FakeCuda::~FakeCuda() {
  EXPECT_EQ(live_streams_, 0) << "streams were left";
  EXPECT_TRUE(events_.empty()) << events_.size() << " events were left";
  EXPECT_TRUE(registered.empty())
      << registered.size() << " registrations were left";
  if (failed_ != "cudaThreadExchangeStreamCaptureMode" && !broken_) {
    EXPECT_EQ(capture_mode(), cudaStreamCaptureModeGlobal);
  }
  live_ = nullptr;
}

cudaStream_t FakeCuda::NewStream(int device) {
  std::lock_guard lock(mutex_);
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->device = device;
  return reinterpret_cast<cudaStream_t>(streams_.back().get());
}

void FakeCuda::Launch(cudaStream_t stream, const std::function<void()>& kernel,
                      double seconds) {
  std::lock_guard lock(mutex_);
  At(stream).queue.push_back({nullptr, [=](Stream& s) {
                                kernel();
                                s.now += seconds;
                              }});
}

void FakeCuda::Hold(cudaStream_t stream, bool held) {
  std::lock_guard lock(mutex_);
  At(stream).held = held;
}

void FakeCuda::Run() {
  std::lock_guard lock(mutex_);
  while (StepAll()) {
  }
}

bool FakeCuda::Step(std::mt19937& random) {
  std::lock_guard lock(mutex_);
  std::vector<Stream*> able;
  for (const auto& stream : streams_) {
    if (CanStep(*stream)) able.push_back(stream.get());
  }
  if (able.empty()) return false;
  StepOne(*able[random() % able.size()]);
  return true;
}

bool FakeCuda::StepOn(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  if (!CanStep(At(stream))) return false;
  StepOne(At(stream));
  return true;
}

bool FakeCuda::IsIdle(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<Stream*>(stream)->queue.empty();
}

void FakeCuda::FailCall(int64_t number, cudaError_t error, int64_t count) {
  fail_at_ = number;
  fail_count_ = count;
  fail_with_ = error;
}

void FakeCuda::Break() {
  std::lock_guard lock(mutex_);
  broken_ = true;
}

cudaError_t FakeCuda::Enter(const char* name, bool breaks_captures) {
  if (on_call) on_call();
  std::lock_guard lock(mutex_);
  if (breaks_captures && captures_elsewhere &&
      capture_mode() != cudaStreamCaptureModeRelaxed) {
    ADD_FAILURE() << name << " ends a capture of the program";
  }
  if (broken_) return last_error() = cudaErrorIllegalAddress;
  const int64_t call = calls_++;
  if (call < fail_at_ || call >= fail_at_ + fail_count_) return cudaSuccess;
  failed_ = name;
  return last_error() = fail_with_;
}

FakeCuda::Stream& FakeCuda::At(cudaStream_t stream) {
  if (stream == nullptr) return *defaults_[current_device()];
  auto* const found = reinterpret_cast<Stream*>(stream);
  EXPECT_FALSE(found->destroyed) << "a stream is used after its end";
  return *found;
}

FakeCuda::Event* FakeCuda::Find(cudaEvent_t event) {
  auto* const found = reinterpret_cast<Event*>(event);
  EXPECT_EQ(events_.count(found), 1u) << "an event is used after its end";
  return found;
}

bool FakeCuda::CanStep(const Stream& stream) const {
  if (broken_ || stream.held || stream.queue.empty()) return false;
  const auto& after = stream.queue.front().after;
  return after == nullptr || after->done;
}

void FakeCuda::StepOne(Stream& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  operation.run(stream);
}

bool FakeCuda::StepAll() {
  bool any = false;
  for (const auto& stream : streams_) {
    if (!CanStep(*stream)) continue;
    StepOne(*stream);
    any = true;
  }
  return any;
}

bool FakeCuda::RunUntil(const Record& record) {
  while (!record.done) {
    if (!StepAll()) {
      ADD_FAILURE() << "the host would wait for ever";
      return false;
    }
  }
  return true;
}

bool FakeCuda::IsRegistered(const char* host, size_t size,
                            bool* crosses) const {
  for (const auto& [address, length] : registered) {
    const char* const end = address + length;
    if (host >= end || host + size <= address) continue;
    if (host >= address && host + size <= end) return true;
    *crosses = true;
  }
  return false;
}

}  // namespace ebbtide
