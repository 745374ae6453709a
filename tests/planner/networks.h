// Profiles of whole networks, synthetic: op times from a roofline of
// 100 TFLOP/s and 1.5 TB/s, in nanoseconds; one stage per op, backward.
#ifndef EBBTIDE_TESTS_PLANNER_NETWORKS_H_
#define EBBTIDE_TESTS_PLANNER_NETWORKS_H_

#include <cmath>
#include <string>
#include <vector>

#include "planner/profile.h"

namespace ebbtide {

class NetworkBuilder {
 public:
  // Adds an op that makes one value; its backward needs `needs` and, with
  // `needs_own`, the value itself. Times in ns; a negative backward is twice
  // the forward. Returns the value.
  int Add(const char* name, double time, double bytes, std::vector<int> inputs,
          std::vector<int> needs, bool needs_own = false,
          double backward = -1) {
    const int v = static_cast<int>(p_.values.size());
    if (needs_own) needs.push_back(v);
    p_.values.push_back({.name = name, .bytes = Whole(bytes), .op = v});
    p_.ops.push_back({.name = name,
                      .inputs = std::move(inputs),
                      .outputs = {v},
                      .time = std::floor(time),
                      .replayable = true});
    backward_.push_back(std::floor(backward < 0 ? 2 * time : backward));
    needs_.push_back(std::move(needs));
    return v;
  }

  Profile Finish() {
    const int ops = static_cast<int>(p_.ops.size());
    for (int i = 0; i < ops; ++i) {
      for (int v : needs_[i]) {
        Value& value = p_.values[v];
        value.saved = value.retainable = value.movable = true;
      }
      p_.values[i].released = i;
      for (int v : p_.ops[i].inputs) p_.values[v].released = i;
    }
    CountUnsaved();
    AddStages();
    return p_;
  }

 private:
  static Bytes Whole(double bytes) {
    return Bytes{static_cast<int64_t>(bytes)};
  }

  // Values that autograd does not save are in `other` while they live.
  void CountUnsaved() {
    for (const Value& value : p_.values) {
      if (value.saved) continue;
      for (int i = value.op; i <= value.released; ++i) {
        p_.ops[i].other += value.bytes;
      }
    }
  }

  // A value's gradient lives from its last reader's backward to its own.
  void AddStages() {
    const int ops = static_cast<int>(p_.ops.size());
    std::vector<char> has_gradient(ops, 0);
    has_gradient[ops - 1] = 1;
    Bytes live = p_.values[ops - 1].bytes;
    for (int i = ops - 1; i >= 0; --i) {
      Stage stage{.name = p_.ops[i].name + "'",
                  .needs = needs_[i],
                  .time = backward_[i],
                  .before = live};
      for (int v : p_.ops[i].inputs) {
        if (has_gradient[v]) continue;
        has_gradient[v] = 1;
        live += p_.values[v].bytes;
      }
      stage.during = live;
      if (has_gradient[i]) live -= p_.values[i].bytes;
      p_.stages.push_back(std::move(stage));
    }
  }

  Profile p_;
  std::vector<double> backward_;
  std::vector<std::vector<int>> needs_;
};

// A GPT with unfused attention, 28 ops per layer, in half precision.
class Gpt {
 public:
  Gpt(int layers, double batch, double tokens, double width, double heads,
      double words)
      : u_(batch * tokens * width * 2),
        a_(batch * heads * tokens * tokens * 2),
        project_(batch * tokens * width * width),
        attend_(batch * tokens * tokens * width) {
    int x = n_.Add("embedding", Move(2 * u_), u_, {}, {}, false, Move(2 * u_));
    for (int i = 0; i < layers; ++i) x = Mlp(Attention(x));
    const int l = Norm(x);
    const double logits = batch * tokens * words * 2;
    const int head = n_.Add("head", Work(2 * batch * tokens * width * words),
                            logits, {l}, {l});
    const int soft = n_.Add("log_softmax", Move(2 * logits), logits, {head}, {},
                            true, Move(3 * logits));
    n_.Add("nll", Move(logits / 100), 1000, {soft}, {}, false, Move(logits));
  }

  Profile Finish() { return n_.Finish(); }

 private:
  static double Work(double flops) { return flops / 100e3; }
  static double Move(double bytes) { return bytes / 1.5e3; }

  int Norm(int x) {
    return n_.Add("layer_norm", Move(2 * u_), u_, {x}, {x}, false,
                  Move(4 * u_));
  }

  int Dropout(int x, double bytes) {
    const int mask =
        n_.Add("bernoulli", Move(bytes / 2), bytes / 2, {}, {}, false, 0);
    return n_.Add("mul", Move(2.5 * bytes), bytes, {x, mask}, {mask}, false,
                  Move(2.5 * bytes));
  }

  int Transposed(int x) {
    const int y = n_.Add("mm", Work(2 * project_), u_, {x}, {x});
    return n_.Add("clone", Move(2 * u_), u_, {y}, {}, false, Move(2 * u_));
  }

  int Attention(int x) {
    const int l = Norm(x);
    const int q = Transposed(l);
    const int k = Transposed(l);
    const int v = Transposed(l);
    const int scores = n_.Add("bmm", Work(2 * attend_), a_, {q, k}, {q, k});
    const int masked = n_.Add("masked_fill", Move(2 * a_), a_, {scores}, {},
                              false, Move(2 * a_));
    const int soft =
        n_.Add("softmax", Move(2 * a_), a_, {masked}, {}, true, Move(3 * a_));
    const int drop = Dropout(soft, a_);
    const int mixed =
        n_.Add("bmm", Work(2 * attend_), u_, {drop, v}, {drop, v});
    const int merged =
        n_.Add("clone", Move(2 * u_), u_, {mixed}, {}, false, Move(2 * u_));
    const int out = n_.Add("mm", Work(2 * project_), u_, {merged}, {merged});
    return Residual(x, out);
  }

  int Mlp(int x) {
    const int l = Norm(x);
    const int wide = n_.Add("mm", Work(8 * project_), 4 * u_, {l}, {l});
    const int bias =
        n_.Add("bias", Move(8 * u_), 4 * u_, {wide}, {}, false, Move(4 * u_));
    const int gelu = n_.Add("gelu", Move(8 * u_), 4 * u_, {bias}, {bias}, false,
                            Move(12 * u_));
    const int out = n_.Add("mm", Work(8 * project_), u_, {gelu}, {gelu});
    return Residual(x, out);
  }

  int Residual(int x, int y) {
    const int bias = n_.Add("bias", Move(2 * u_), u_, {y}, {}, false, Move(u_));
    const int drop = Dropout(bias, u_);
    return n_.Add("add", Move(3 * u_), u_, {x, drop}, {}, false, Move(u_));
  }

  const double u_;  // bytes of the residual stream
  const double a_;  // bytes of the attention scores
  const double project_;
  const double attend_;
  NetworkBuilder n_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_NETWORKS_H_
