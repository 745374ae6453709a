#include "planner/size.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace ebbtide {
namespace {

constexpr double kAutoShare = 0.9;
constexpr Bytes kLeastWithoutUnit{1 << 20};
constexpr double kMost = static_cast<double>(int64_t{1} << 60);

struct Unit {
  absl::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1024.0 * 1024 * 1024},
    {"TiB", 1024.0 * 1024 * 1024 * 1024},
    {"K", 1024.0},
    {"M", 1024.0 * 1024},
    {"G", 1024.0 * 1024 * 1024},
    {"T", 1024.0 * 1024 * 1024 * 1024},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
};

absl::Status Bad(absl::string_view text, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", got \"", text, "\""));
}

// Digits with at most one point among them: no sign, no exponent, no "inf".
bool ParseNumber(absl::string_view text, double* out) {
  int digits = 0;
  int points = 0;
  for (char c : text) {
    if (absl::ascii_isdigit(c)) {
      ++digits;
    } else if (c == '.') {
      ++points;
    } else {
      return false;
    }
  }
  return digits > 0 && points <= 1 && absl::SimpleAtod(text, out) &&
         std::isfinite(*out);
}

// "cpu", "cuda" or "cuda:N".
bool IsDevice(absl::string_view text) {
  if (text == "cpu" || text == "cuda") return true;
  if (!absl::StartsWith(text, "cuda:")) return false;
  text.remove_prefix(5);
  int index = 0;
  return !text.empty() && absl::ascii_isdigit(text[0]) &&
         absl::SimpleAtoi(text, &index);
}

absl::StatusOr<Amount> ParseAmount(absl::string_view text) {
  if (text == "auto") return Amount{.kind = Amount::Kind::kAuto};
  if (absl::EndsWith(text, "%")) {
    double percent = 0;
    if (!ParseNumber(
            absl::StripAsciiWhitespace(text.substr(0, text.size() - 1)),
            &percent) ||
        percent <= 0 || percent > 100) {
      return Bad(text, "a percentage above 0% and up to 100%");
    }
    return Amount{.kind = Amount::Kind::kShare, .share = percent / 100};
  }
  absl::StatusOr<Bytes> bytes = ParseSize(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < kLeastWithoutUnit && !absl::ascii_isalpha(text.back())) {
    return Bad(text, absl::StrCat("a unit, as ", text, "MiB or ", text, "GiB"));
  }
  return Amount{.kind = Amount::Kind::kBytes, .bytes = *bytes};
}

}  // namespace

absl::StatusOr<Bytes> ParseSize(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t end = trimmed.size();
  while (end > 0 && absl::ascii_isalpha(trimmed[end - 1])) --end;
  const absl::string_view number =
      absl::StripAsciiWhitespace(trimmed.substr(0, end));
  const absl::string_view name = trimmed.substr(end);
  double count = 0;
  if (!ParseNumber(number, &count)) {
    return Bad(text, "a size such as 8GiB, 512MiB or 1048576");
  }
  for (const Unit& unit : kUnits) {
    if (!absl::EqualsIgnoreCase(unit.name, name)) continue;
    // Whole bytes exactly, also beyond what a double holds.
    int64_t exact = 0;
    const bool whole = unit.bytes == 1 && absl::SimpleAtoi(number, &exact);
    const double bytes = count * unit.bytes;
    if (bytes < 1) return Bad(text, "a size of at least 1 byte");
    if (bytes > kMost) return Bad(text, "a size of at most 2^60 bytes");
    return Bytes{whole ? exact : static_cast<int64_t>(bytes)};
  }
  return Bad(text,
             "a unit among B, KiB, MiB, GiB, TiB, KB, MB, GB, TB, K, M, G, T");
}

absl::StatusOr<std::vector<DeviceBudget>> ParseBudget(absl::string_view text) {
  std::vector<DeviceBudget> budgets;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    DeviceBudget budget;
    absl::string_view amount = part;
    const size_t equals = part.find('=');
    if (equals != absl::string_view::npos) {
      budget.device =
          std::string(absl::StripAsciiWhitespace(part.substr(0, equals)));
      amount = absl::StripAsciiWhitespace(part.substr(equals + 1));
      if (!IsDevice(budget.device)) {
        return Bad(part, "a device cpu, cuda or cuda:N before \"=\"");
      }
    }
    absl::StatusOr<Amount> parsed = ParseAmount(amount);
    if (!parsed.ok()) return parsed.status();
    budget.amount = *parsed;
    for (const DeviceBudget& other : budgets) {
      if (other.device == budget.device) {
        return Bad(text, "each device once");
      }
      if (other.device.empty() || budget.device.empty()) {
        return Bad(text, "one size, or device=size for each device");
      }
    }
    budgets.push_back(std::move(budget));
  }
  return budgets;
}

const Amount* AmountForCuda(const std::vector<DeviceBudget>& budgets,
                            int index) {
  const std::string name = absl::StrCat("cuda:", index);
  const Amount* of_all = nullptr;
  for (const DeviceBudget& budget : budgets) {
    if (budget.device == name) return &budget.amount;
    if (budget.device.empty() || budget.device == "cuda") {
      of_all = &budget.amount;
    }
  }
  return of_all;
}

Bytes Resolve(const Amount& amount, Bytes total, Bytes free) {
  switch (amount.kind) {
    case Amount::Kind::kBytes:
      return amount.bytes;
    case Amount::Kind::kShare:
      return Bytes{static_cast<int64_t>(amount.share * Count(total))};
    case Amount::Kind::kAuto:
      break;
  }
  return Bytes{static_cast<int64_t>(kAutoShare * Count(free))};
}

std::string FormatSize(Bytes bytes) {
  const double count = static_cast<double>(Count(bytes));
  constexpr absl::string_view kNames[] = {"KiB", "MiB", "GiB", "TiB"};
  if (count < 1024) return absl::StrCat(Count(bytes), " B");
  double value = count / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kNames)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kNames[unit]);
}

}  // namespace ebbtide
