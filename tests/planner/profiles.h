// Profiles for the planner's tests: one by hand, and random small ones.
#ifndef EBBTIDE_TESTS_PLANNER_PROFILES_H_
#define EBBTIDE_TESTS_PLANNER_PROFILES_H_

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/plan.h"
#include "planner/profile.h"

namespace ebbtide {

// Three ops in a row; each saves its output for the stage of the next one, and
// the last stage needs the first value again:
//   op:     a(4) ─▶ b(8) ─▶ c(2)      stages need: {c,b} {b,a} {a}
inline Profile ThreeOps() {
  Profile p;
  const int bytes[] = {4, 8, 2};
  for (int i = 0; i < 3; ++i) {
    Value v;
    v.name = std::string(1, static_cast<char>('a' + i));
    v.bytes = Bytes{bytes[i]};
    v.op = i;
    v.saved = v.retainable = v.movable = true;
    v.released = std::min(i + 1, 2);
    p.values.push_back(v);
    Op op;
    op.name = "make_" + v.name;
    if (i > 0) op.inputs = {i - 1};
    op.outputs = {i};
    op.time = 10;
    op.other = Bytes{1};
    op.scratch = Bytes{1};
    op.replayable = true;
    p.ops.push_back(op);
  }
  p.stages = {
      {.name = "c'", .needs = {2, 1}, .time = 20, .during = Bytes{1}},
      {.name = "b'", .needs = {1, 0}, .time = 20, .during = Bytes{1}},
      {.name = "a'", .needs = {0}, .time = 20, .during = Bytes{1}},
  };
  p.tail = Bytes{3};
  return p;
}

// Plans for it that keep all,
inline const std::vector<Action> kKeep = {
    {Action::Do::kForward, 0}, {Action::Do::kForward, 1},
    {Action::Do::kForward, 2}, {Action::Do::kBackward, 0},
    {Action::Do::kFree, 2},    {Action::Do::kBackward, 1},
    {Action::Do::kFree, 1},    {Action::Do::kBackward, 2},
    {Action::Do::kFree, 0}};

// that drop b and recompute it: b is dropped after the forward pass and
// recomputed before its stage.
inline const std::vector<Action> kRebuild = {
    {Action::Do::kForward, 0},   {Action::Do::kForward, 1},
    {Action::Do::kForward, 2},   {Action::Do::kFree, 1},
    {Action::Do::kRecompute, 1}, {Action::Do::kBackward, 0},
    {Action::Do::kFree, 2},      {Action::Do::kBackward, 1},
    {Action::Do::kFree, 1},      {Action::Do::kBackward, 2},
    {Action::Do::kFree, 0}};

// that move a: it is offloaded after op 1, its last reader, and restored before
// stage 1.
inline const std::vector<Action> kMove = {
    {Action::Do::kForward, 0},  {Action::Do::kForward, 1},
    {Action::Do::kOffload, 0},  {Action::Do::kForward, 2},
    {Action::Do::kBackward, 0}, {Action::Do::kFree, 2},
    {Action::Do::kRestore, 0},  {Action::Do::kBackward, 1},
    {Action::Do::kFree, 1},     {Action::Do::kBackward, 2},
    {Action::Do::kFree, 0}};

// A random valid profile whose every need can be kept or recomputed. Some
// values are unsaved, some ops have two outputs or are not replayable, some
// values are held by the script into the backward pass.
inline Profile RandomProfile(uint32_t seed, int ops, bool lanes = false) {
  std::mt19937 rng(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  Profile p;
  for (int i = 0; i < ops; ++i) {
    Op op;
    op.name = absl::StrCat("op", i);
    const int values = p.values.size();
    for (int v = std::max(0, values - 3); v < values; ++v) {
      if (pick(0, 2) > 0 || v == values - 1) op.inputs.push_back(v);
    }
    op.time = pick(1, 9);
    op.other = Bytes{pick(0, 4)};
    op.scratch = Bytes{pick(0, 2)};
    op.replayable = pick(0, 7) > 0;
    for (int k = pick(1, 5) == 1 ? 2 : 1; k > 0; --k) {
      Value v;
      v.name = absl::StrCat("v", p.values.size());
      v.bytes = Bytes{pick(0, 9)};
      v.op = i;
      v.saved = pick(0, 2) > 0;
      v.retainable = v.saved;
      v.movable = v.saved && pick(0, 4) > 0;
      v.released = i;
      op.outputs.push_back(p.values.size());
      p.values.push_back(v);
    }
    p.ops.push_back(op);
  }
  for (int i = 0; i < ops; ++i) {
    for (int v : p.ops[i].inputs) p.values[v].released = i;
  }
  int64_t gradients = pick(0, 4);
  for (int t = 0; t < ops; ++t) {
    Stage stage;
    stage.name = absl::StrCat("stage", t);
    for (int v = 0; v < static_cast<int>(p.values.size()); ++v) {
      const bool near =
          p.values[v].op >= ops - 2 - t && p.values[v].op <= ops - 1 - t;
      if (p.values[v].saved && near && pick(0, 1) == 0) {
        stage.needs.push_back(v);
      }
    }
    stage.time = pick(1, 9);
    stage.before = Bytes{gradients};
    stage.during = Bytes{gradients + pick(0, 3)};
    gradients = pick(0, 4);
    p.stages.push_back(stage);
  }
  for (Value& v : p.values) {
    if (pick(0, 9) == 0) v.released = ops + pick(0, ops);
  }
  p.tail = Bytes{pick(0, 3)};
  if (lanes) {
    p.d2h = 0.25 * pick(1, 6);
    p.h2d = 0.25 * pick(1, 6);
  }
  return p;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_PROFILES_H_
