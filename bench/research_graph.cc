// Prints one of the synthetic networks of published planner figures as a
// profile:
//   research_graph NAME LAYERS RATIO
// or, with NAME random, a random network of LAYERS ops.
// RATIO is the share of all saved bytes that either lane moves in the time of
// one forward pass; 0: no lanes.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "planner/profile.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

double SavedBytes(const Profile& profile) {
  std::vector<char> needed(profile.values.size(), 0);
  for (const Stage& stage : profile.stages) {
    for (int v : stage.needs) needed[v] = 1;
  }
  double bytes = 0;
  for (size_t v = 0; v < needed.size(); ++v) {
    if (needed[v]) bytes += static_cast<double>(Count(profile.values[v].bytes));
  }
  return bytes;
}

void Print(const char* name, int layers, double ratio) {
  Profile profile = absl::string_view(name) == "random"
                        ? RandomNetwork(1, layers)
                        : ResearchGraph(name, layers);
  if (ratio > 0) {
    Time forward = 0;
    for (const Op& op : profile.ops) forward += op.time;
    profile.d2h = profile.h2d = ratio * SavedBytes(profile) / forward;
  }
  std::printf("%s\n", ProfileToJson(profile).c_str());
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: research_graph NAME LAYERS RATIO\n");
    return 2;
  }
  ebbtide::Print(argv[1], std::atoi(argv[2]), std::atof(argv[3]));
  return 0;
}
