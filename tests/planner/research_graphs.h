// The synthetic networks that the planner's published figures are for: GPTs
// with unfused and with fused attention, an encoder and decoder, U-Nets.
#ifndef EBBTIDE_TESTS_PLANNER_RESEARCH_GRAPHS_H_
#define EBBTIDE_TESTS_PLANNER_RESEARCH_GRAPHS_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/profile.h"
#include "tests/planner/networks.h"

namespace ebbtide {

// Times of the roofline of tests/planner/networks.h, in nanoseconds.
inline double WorkTime(double flops) { return flops / 100e3; }
inline double MoveTime(double bytes) { return bytes / 1.5e3; }

// Pieces of a transformer in half precision.
class Transformer {
 public:
  Transformer(double batch, double tokens, double width, double heads)
      : rows_(batch * tokens),
        u_(batch * tokens * width * 2),
        a_(batch * heads * tokens * tokens * 2),
        project_(batch * tokens * width * width),
        attend_(batch * tokens * tokens * width) {}

  int Embedding() {
    return n_.Add("embedding", MoveTime(2 * u_), u_, {}, {}, false,
                  MoveTime(2 * u_));
  }

  // Unfused; keys and values are made from `source`, or from x if it is -1.
  int Attention(int x, int source = -1) {
    const int l = Norm(x);
    if (source < 0) source = l;
    const int q = Project(l);
    const int k = Project(source);
    const int v = Project(source);
    const int qt = Clone(q);
    const int kt = Clone(k);
    const int vt = Clone(v);
    const int scores =
        n_.Add("bmm", WorkTime(2 * attend_), a_, {qt, kt}, {qt, kt});
    const int masked = n_.Add("masked_fill", MoveTime(2 * a_), a_, {scores}, {},
                              false, MoveTime(2 * a_));
    const int soft = n_.Add("softmax", MoveTime(2 * a_), a_, {masked}, {}, true,
                            MoveTime(3 * a_));
    const int drop = Dropout(soft, a_);
    const int mixed =
        n_.Add("bmm", WorkTime(2 * attend_), u_, {drop, vt}, {drop, vt});
    return Residual(x, Project(Clone(mixed)));
  }

  int Mlp(int x) {
    const int l = Norm(x);
    const int wide = n_.Add("mm", WorkTime(8 * project_), 4 * u_, {l}, {l});
    const int bias = n_.Add("bias", MoveTime(8 * u_), 4 * u_, {wide}, {}, false,
                            MoveTime(4 * u_));
    return Residual(x, Narrow(Gelu(bias)));
  }

  // Attention as one op, no dropout, no bias.
  int FlashLayer(int x) {
    const int l = Norm(x);
    const int qkv = n_.Add("mm", WorkTime(6 * project_), 3 * u_, {l}, {l});
    const int flash = n_.Add("flash", WorkTime(4 * attend_) * 1.3, u_, {qkv},
                             {qkv}, true, WorkTime(10 * attend_) * 1.3);
    const int y = Sum(x, Project(flash));
    const int m = Norm(y);
    const int wide = n_.Add("mm", WorkTime(8 * project_), 4 * u_, {m}, {m});
    return Sum(y, Narrow(Gelu(wide)));
  }

  Profile Finish(int x, double words) {
    const int l = Norm(x);
    const double logits = rows_ * words * 2;
    const int head = n_.Add("head", WorkTime(u_ * words), logits, {l}, {l});
    const int soft = n_.Add("log_softmax", MoveTime(2 * logits), logits, {head},
                            {}, true, MoveTime(3 * logits));
    n_.Add("nll", MoveTime(logits / 100), 1000, {soft}, {}, false,
           MoveTime(logits));
    return n_.Finish();
  }

 private:
  int Norm(int x) {
    return n_.Add("layer_norm", MoveTime(2 * u_), u_, {x}, {x}, false,
                  MoveTime(4 * u_));
  }

  int Project(int x) {
    return n_.Add("mm", WorkTime(2 * project_), u_, {x}, {x});
  }

  int Clone(int x) {
    return n_.Add("clone", MoveTime(2 * u_), u_, {x}, {}, false,
                  MoveTime(2 * u_));
  }

  int Dropout(int x, double bytes) {
    const int mask =
        n_.Add("bernoulli", MoveTime(bytes / 2), bytes / 2, {}, {}, false, 0);
    return n_.Add("mul", MoveTime(2.5 * bytes), bytes, {x, mask}, {mask}, false,
                  MoveTime(2.5 * bytes));
  }

  int Gelu(int x) {
    return n_.Add("gelu", MoveTime(8 * u_), 4 * u_, {x}, {x}, false,
                  MoveTime(12 * u_));
  }

  int Narrow(int x) {
    return n_.Add("mm", WorkTime(8 * project_), u_, {x}, {x});
  }

  int Sum(int x, int y) {
    return n_.Add("add", MoveTime(3 * u_), u_, {x, y}, {}, false, MoveTime(u_));
  }

  int Residual(int x, int y) {
    const int bias =
        n_.Add("bias", MoveTime(2 * u_), u_, {y}, {}, false, MoveTime(u_));
    return Sum(x, Dropout(bias, u_));
  }

  const double rows_;
  const double u_;  // bytes of the residual stream
  const double a_;  // bytes of the attention scores
  const double project_;
  const double attend_;
  NetworkBuilder n_;
};

// A GPT with unfused attention, 28 ops per layer.
inline Profile Gpt(int layers, double batch, double tokens, double width,
                   double heads, double words) {
  Transformer t(batch, tokens, width, heads);
  int x = t.Embedding();
  for (int i = 0; i < layers; ++i) x = t.Mlp(t.Attention(x));
  return t.Finish(x, words);
}

inline Profile FlashGpt(int layers, double batch, double tokens, double width,
                        double words) {
  Transformer t(batch, tokens, width, 1);
  int x = t.Embedding();
  for (int i = 0; i < layers; ++i) x = t.FlashLayer(x);
  return t.Finish(x, words);
}

inline Profile EncoderDecoder(int layers, double batch, double tokens,
                              double width, double heads, double words) {
  Transformer t(batch, tokens, width, heads);
  int x = t.Embedding();
  for (int i = 0; i < layers; ++i) x = t.Mlp(t.Attention(x));
  int y = t.Embedding();
  for (int i = 0; i < layers; ++i) {
    y = t.Mlp(t.Attention(t.Attention(y), x));
  }
  return t.Finish(y, words);
}

// A U-Net in single precision: two convolutions with batch norm per level,
// skip connections as long as the network.
class UNet {
 public:
  UNet(int levels, double batch, double side, double channels) : batch_(batch) {
    int x = n_.Add("input", 1e4, Size(3, side), {}, {}, false, 0);
    std::vector<int> skip;
    double in = 3;
    double out = channels;
    for (int i = 0; i < levels; ++i) {
      x = Double(x, in, out, side);
      skip.push_back(x);
      x = n_.Add("pool", MoveTime(1.25 * Size(out, side)), Size(out, side / 2),
                 {x}, {x});
      in = out;
      out *= 2;
      side /= 2;
    }
    x = Double(x, in, out, side);
    for (int i = levels - 1; i >= 0; --i) {
      in = out;
      out /= 2;
      side *= 2;
      const double bytes = Size(out, side);
      x = n_.Add("up", ConvTime(in, out, 2, side) / 4, bytes, {x}, {x});
      x = n_.Add("cat", MoveTime(4 * bytes), 2 * bytes, {x, skip[i]}, {}, false,
                 MoveTime(4 * bytes));
      x = Double(x, 2 * out, out, side);
    }
    n_.Add("out", ConvTime(channels, 1, 1, side), Size(1, side), {x}, {x});
  }

  Profile Finish() { return n_.Finish(); }

 private:
  double Size(double channels, double side) const {
    return batch_ * channels * side * side * 4;
  }
  double ConvTime(double in, double out, double kernel, double side) const {
    return 2 * WorkTime(2 * batch_ * in * out * kernel * kernel * side * side);
  }

  int Block(int x, double in, double out, double side) {
    const double bytes = Size(out, side);
    const int conv =
        n_.Add("conv", ConvTime(in, out, 3, side), bytes, {x}, {x});
    const int norm = n_.Add("batch_norm", MoveTime(3 * bytes), bytes, {conv},
                            {conv}, false, MoveTime(4 * bytes));
    return n_.Add("relu", MoveTime(2 * bytes), bytes, {norm}, {}, true,
                  MoveTime(3 * bytes));
  }

  int Double(int x, double in, double out, double side) {
    return Block(Block(x, in, out, side), out, out, side);
  }

  const double batch_;
  NetworkBuilder n_;
};

// By the names of the tables: gpts, gptv (a small vocabulary), gptf, encdec,
// unet; `layers` are levels of a U-Net, layers of each half of encdec.
inline Profile ResearchGraph(absl::string_view name, int layers) {
  if (name == "gpts") return Gpt(layers, 8, 512, 1024, 16, 50304);
  if (name == "gptv") return Gpt(layers, 8, 512, 1024, 16, 3000);
  if (name == "gptf") return FlashGpt(layers, 2, 2048, 4096, 32000);
  if (name == "encdec") return EncoderDecoder(layers, 8, 512, 1024, 16, 32000);
  return UNet(layers, 16, 256, 64).Finish();
}

// A random network as tight as real ones are not: every op reads up to three
// earlier values, and its backward needs about half of them.
inline Profile RandomNetwork(uint32_t seed, int ops) {
  std::mt19937 rng(seed);
  const auto pick = [&](int n) { return static_cast<int>(rng() % n); };
  NetworkBuilder n;
  for (int v = 0; v < ops; ++v) {
    std::vector<int> inputs;
    const int most = v == 0 || pick(12) == 0 ? 0 : 1 + pick(3);
    for (int k = 0; k < most; ++k) {
      const int u = pick(3) > 0 ? std::max(0, v - 1 - pick(4)) : pick(v);
      if (std::find(inputs.begin(), inputs.end(), u) == inputs.end()) {
        inputs.push_back(u);
      }
    }
    if (v == ops - 1 && v > 0 && inputs.empty()) inputs.push_back(v - 1);
    std::vector<int> needs;
    for (int u : inputs) {
      if (pick(2) == 0) needs.push_back(u);
    }
    const bool needs_own = pick(4) == 0;
    const int time = 1 + pick(10);
    const int bytes = 1 + pick(20);
    n.Add("op", time, bytes, inputs, needs, needs_own, 1 + pick(20));
  }
  return n.Finish();
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_RESEARCH_GRAPHS_H_
