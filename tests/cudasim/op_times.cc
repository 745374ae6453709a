#include "tests/cudasim/op_times.h"

#include <charconv>
#include <cmath>
#include <fstream>

namespace cudasim {

std::optional<OpTimes> OpTimes::Read(const std::string& path,
                                     std::string* error) {
  std::ifstream file(path);
  if (!file) {
    *error = path + ": cannot be read";
    return std::nullopt;
  }
  OpTimes table;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const auto refuse = [&](const std::string& why) {
      *error = path + ":" + std::to_string(number) + ": " + why;
      return std::nullopt;
    };
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || tab + 1 == line.size()) {
      return refuse("expected nanoseconds, a tab and an op, found '" + line +
                    "'");
    }
    const std::string op = line.substr(tab + 1);
    double ns = 0;
    const char* const end = line.data() + tab;
    const auto read = std::from_chars(line.data(), end, ns);
    if (read.ec != std::errc() || read.ptr != end || !std::isfinite(ns) ||
        ns <= 0) {
      return refuse(op + ": '" + line.substr(0, tab) +
                    "' is not a positive, finite number of nanoseconds");
    }
    if (!table.times_.emplace(op, ns).second) {
      return refuse(op + ": an earlier line has its time");
    }
  }
  return table;
}

std::optional<double> OpTimes::Find(const std::string& op) const {
  const auto found = times_.find(op);
  if (found == times_.end()) return std::nullopt;
  return found->second;
}

}  // namespace cudasim
