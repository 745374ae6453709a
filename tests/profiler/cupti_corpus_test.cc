// Runs the inputs that the fuzzer of activity buffers has found worth keeping,
// and the same inputs with random bytes changed, cut and put together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/cupti_parse_input.h"

namespace ebbtide {
namespace {

using Input = std::vector<uint8_t>;

std::vector<Input> Corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           EBBTIDE_TEST_DATA "/cupti_buffers")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return corpus;
}

Input Mutated(const std::vector<Input>& corpus, std::mt19937* random) {
  Input input = corpus[(*random)() % corpus.size()];
  if ((*random)() % 2 == 0) {
    const Input& other = corpus[(*random)() % corpus.size()];
    if (!other.empty()) {
      input.insert(input.end(), other.begin() + 1, other.end());
    }
  }
  for (uint32_t changes = (*random)() % 4; changes > 0 && !input.empty();
       --changes) {
    input[(*random)() % input.size()] = static_cast<uint8_t>((*random)());
  }
  if ((*random)() % 3 == 0) input.resize((*random)() % (input.size() + 1));
  return input;
}

TEST(CuptiCorpusTest, InputsOfTheFuzzerKeepItsPromises) {
  const std::vector<Input> corpus = Corpus();
  ASSERT_GT(corpus.size(), 10);
  int read = 0;
  for (const Input& input : corpus) read += TryCuptiBuffer(input) ? 1 : 0;
  EXPECT_GT(read, 0);
  EXPECT_LT(read, corpus.size());
}

TEST(CuptiCorpusTest, SoDoTheirMutants) {
  const std::vector<Input> corpus = Corpus();
  ASSERT_FALSE(corpus.empty());
  std::mt19937 random(1);
  const int mutants =
      std::getenv("EBBTIDE_LONG") != nullptr ? 20'000'000 : 2'000'000;
  int read = 0;
  for (int i = 0; i < mutants; ++i) {
    read += TryCuptiBuffer(Mutated(corpus, &random)) ? 1 : 0;
  }
  EXPECT_GT(read, mutants / 100);
}

}  // namespace
}  // namespace ebbtide
