#include "hooks/typical_times.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ebbtide {
namespace {

constexpr size_t kRemembered = 7;

}  // namespace

void TypicalTimes::Add(const Tape& tape, double step) {
  Times times;
  times.reserve(tape.ops.size() + tape.stages.size() + 1);
  for (const TapeOp& op : tape.ops) times.push_back(op.nanoseconds);
  for (const TapeStage& stage : tape.stages) times.push_back(stage.nanoseconds);
  times.push_back(step);
  if (!last_.empty() && last_.back().size() != times.size()) last_.clear();
  if (last_.size() == kRemembered) last_.pop_front();
  last_.push_back(std::move(times));
  ++pairs_;
}

double TypicalTimes::Median(size_t part) const {
  std::array<float, kRemembered> values;
  size_t count = 0;
  for (const Times& times : last_) values[count++] = times[part];
  const auto middle = values.begin() + (count - 1) / 2;
  std::nth_element(values.begin(), middle, values.begin() + count);
  return *middle;
}

void TypicalTimes::PutInto(Tape* tape) const {
  size_t part = 0;
  for (TapeOp& op : tape->ops) op.nanoseconds = Median(part++);
  for (TapeStage& stage : tape->stages) stage.nanoseconds = Median(part++);
}

double TypicalTimes::step() const {
  return last_.empty() ? 0 : Median(last_.back().size() - 1);
}

}  // namespace ebbtide
