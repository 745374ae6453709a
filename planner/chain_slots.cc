#include "planner/chain_slots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace ebbtide {
namespace {

// Sums of two times of a plan fit 31 bits with room.
constexpr double kSmallTimes = 1 << 29;
constexpr int kFinestBinary = 24;

int64_t CommonDivisor(const Chain& chain) {
  int64_t divisor = 0;
  for (const auto* sizes : {&chain.x, &chain.xb, &chain.ft, &chain.bt}) {
    for (Bytes size : *sizes) divisor = std::gcd(divisor, Count(size));
  }
  for (const ChainOption& option : chain.options) {
    for (Bytes size : {option.xb, option.ft, option.bt}) {
      divisor = std::gcd(divisor, Count(size));
    }
  }
  return std::max<int64_t>(1, divisor);
}

// No plan of a table runs a forward more often than there are stages from it
// on, the loss among them.
double MostTime(const SlotChain& c) {
  double most = 0;
  for (int i = 0; i <= c.stages; ++i) {
    double fw = i < c.stages ? c.walked[i + 1] - c.walked[i] : 0;
    double bw = 0;
    for (const SlotWay& way : c.ways[i]) {
      fw = std::max(fw, way.fw);
      bw = std::max(bw, way.bw);
    }
    most += fw * (c.stages + 1 - i) + bw;
  }
  return most;
}

std::vector<Time> AllTimes(const Chain& chain) {
  std::vector<Time> times = chain.fw;
  times.insert(times.end(), chain.bw.begin(), chain.bw.end());
  for (const ChainOption& option : chain.options) {
    times.push_back(option.fw);
    times.push_back(option.bw);
  }
  return times;
}

// The largest unit that all times are whole numbers of, or 0.
Time CommonTime(const std::vector<Time>& times) {
  double scale = 1;
  const auto whole = [&](Time time) {
    return std::floor(time * scale) == time * scale;
  };
  for (int bits = 0; !std::all_of(times.begin(), times.end(), whole); ++bits) {
    if (bits == kFinestBinary) return 0;
    scale *= 2;
  }
  int64_t divisor = 0;
  for (Time time : times) {
    if (time * scale > 9e15) return 0;
    divisor = std::gcd(divisor, static_cast<int64_t>(time * scale));
  }
  return static_cast<double>(std::max<int64_t>(1, divisor)) / scale;
}

void CountTimes(const Chain& chain, SlotChain* c) {
  c->walked = {0};
  for (Time fw : chain.fw) c->walked.push_back(c->walked.back() + fw);
  const Time quantum = CommonTime(AllTimes(chain));
  if (quantum == 0 || MostTime(*c) / quantum >= kSmallTimes) return;
  c->quantum = quantum;
  c->small_times = true;
  for (Time& walked : c->walked) walked /= quantum;
  for (auto& ways : c->ways) {
    for (SlotWay& way : ways) {
      way.fw /= quantum;
      way.bw /= quantum;
    }
  }
}

SlotChain CountIn(const Chain& chain, int64_t unit, Rounding rounding) {
  const auto slots = [&](Bytes size) {
    const int64_t more = rounding == Rounding::kUp ? unit - 1 : 0;
    return (Count(size) + more) / unit;
  };
  SlotChain c;
  c.stages = Stages(chain);
  c.unit = unit;
  c.input = Count(chain.x[0]);
  c.rounding = rounding;
  for (Bytes x : chain.x) c.x.push_back(slots(x));
  c.x.push_back(0);
  for (Bytes ft : chain.ft) c.ft.push_back(slots(ft));
  for (int i = 0; i < c.stages; ++i) {
    c.ways.emplace_back();
    for (const ChainOption& way : SavingWays(chain, i)) {
      c.ways[i].push_back(
          {way.fw, way.bw, slots(way.xb), slots(way.ft), slots(way.bt)});
    }
  }
  c.ways.push_back({{0, chain.bw.back(), 0, 0, slots(chain.bt.back())}});
  CountTimes(chain, &c);
  return c;
}

}  // namespace

int64_t SlotChain::SlotsOf(Bytes budget) const {
  if (Count(budget) < input) return -1;
  const int64_t more = rounding == Rounding::kUp ? 0 : unit - 1;
  return std::min((Count(budget) - input + more) / unit, slots);
}

SlotChain CountSlots(const Chain& chain, Bytes most, int64_t limit,
                     Rounding rounding) {
  const int64_t bytes = std::max<int64_t>(0, Count(most) - Count(chain.x[0]));
  const int64_t divisor = CommonDivisor(chain);
  const int64_t units = bytes / divisor;
  const int64_t many = std::max<int64_t>(1, (units + limit - 1) / limit);
  SlotChain c = CountIn(chain, divisor * many, rounding);
  const int64_t more = rounding == Rounding::kUp ? 0 : c.unit - 1;
  c.slots = (bytes + more) / c.unit;
  return c;
}

bool IsExact(const Chain& chain, const SlotChain& slots) {
  return CommonDivisor(chain) % slots.unit == 0;
}

SlotChain CountBytes(const Chain& chain) {
  SlotChain c = CountIn(chain, 1, Rounding::kUp);
  c.slots = std::numeric_limits<int64_t>::max() / 4;
  return c;
}

Bytes EnoughFor(const Chain& chain) {
  Bytes enough = chain.x[0];
  Bytes most{};
  for (int i = 0; i < Stages(chain); ++i) {
    Bytes saved{};
    for (const ChainOption& way : SavingWays(chain, i)) {
      saved = std::max(saved, way.xb);
      most = std::max({most, chain.x[i] + way.ft, chain.x[i] + way.bt});
    }
    enough += saved;
    most = std::max(most, chain.x[i + 1] + chain.x[i]);
  }
  return enough + most + most + chain.x.back() + chain.bt.back();
}

}  // namespace ebbtide
