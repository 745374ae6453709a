// A perceptron with dropout trained by Adam: a C++ program on LibTorch.
//
//   mlp [--steps N] [--threads N] [--seed N] [--size small|full]
//
// Prints what the Python jobs print: `step I loss HEX seconds S` per step, then
// `hash H` over parameters, moments and the next random number, then
// `median S`. The hash is FNV-1a, 64 bits.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Arguments {
  int64_t steps = 12;
  int threads = 2;
  uint64_t seed = 1;
  bool small = false;
};

struct Shape {
  int64_t layers, width, batch;
};

[[noreturn]] void Usage(const std::string& why) {
  std::fprintf(stderr,
               "mlp: %s\nusage: mlp [--steps N] [--threads N] [--seed N] "
               "[--size small|full]\n",
               why.c_str());
  std::exit(2);
}

int64_t Number(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0) {
    Usage(name + " takes a whole number, not '" + text + "'");
  }
  return value;
}

Arguments Parse(int argc, char** argv) {
  Arguments result;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) Usage(name + " needs a value");
    const std::string value = argv[i + 1];
    if (name == "--steps") {
      result.steps = Number(name, value);
    } else if (name == "--threads") {
      result.threads = static_cast<int>(Number(name, value));
    } else if (name == "--seed") {
      result.seed = static_cast<uint64_t>(Number(name, value));
    } else if (name == "--size" && (value == "small" || value == "full")) {
      result.small = value == "small";
    } else {
      Usage("cannot use " + name + " " + value);
    }
  }
  return result;
}

class Perceptron : public torch::nn::Module {
 public:
  explicit Perceptron(const Shape& shape) {
    for (int64_t i = 0; i < shape.layers; ++i) {
      layers_->push_back(torch::nn::Linear(shape.width, shape.width));
      layers_->push_back(
          torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
      layers_->push_back(torch::nn::GELU());
      layers_->push_back(torch::nn::Dropout(0.1));
    }
    layers_->push_back(torch::nn::Linear(shape.width, 10));
    register_module("layers", layers_);
  }

  torch::Tensor forward(const torch::Tensor& x) { return layers_->forward(x); }

 private:
  torch::nn::Sequential layers_;
};

class Digest {
 public:
  void Add(const torch::Tensor& tensor) {
    const torch::Tensor flat = tensor.detach().contiguous();
    const auto* bytes = static_cast<const uint8_t*>(flat.const_data_ptr());
    for (size_t i = 0; i < flat.nbytes(); ++i) {
      value_ = (value_ ^ bytes[i]) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

uint64_t StateHash(const Perceptron& model, torch::optim::Adam& optimizer) {
  Digest digest;
  for (const torch::Tensor& parameter : model.parameters()) {
    digest.Add(parameter);
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto& state =
        static_cast<const torch::optim::AdamParamState&>(*found->second);
    digest.Add(state.exp_avg());
    digest.Add(state.exp_avg_sq());
  }
  digest.Add(torch::rand(1));
  return digest.value();
}

void Train(const Arguments& arguments) {
  const Shape shape = arguments.small ? Shape{4, 64, 256} : Shape{8, 512, 4096};
  Perceptron model(shape);
  torch::optim::Adam optimizer(model.parameters(), 1e-3);
  std::vector<double> seconds;
  for (int64_t step = 0; step < arguments.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const torch::Tensor x = torch::randn({shape.batch, shape.width});
    const torch::Tensor labels = x.slice(1, 0, 10).argmax(1);
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(model.forward(x), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    const double value = loss.item<double>();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
    std::printf("step %d loss %a seconds %.6f\n", static_cast<int>(step), value,
                took.count());
    std::fflush(stdout);
  }
  std::printf("hash %016llx\n",
              static_cast<unsigned long long>(StateHash(model, optimizer)));
  // The first step also warms caches and thread pools.
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  std::printf("median %.6f\n",
              seconds.empty() ? 0.0 : seconds[seconds.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  torch::set_num_threads(arguments.threads);
  // In its first call MKL chooses code for the processor; where two threads
  // make that call at once, the square roots of one may differ in their last
  // bits.
  torch::ones({1}).sqrt();
  torch::manual_seed(arguments.seed);
  Train(arguments);
  return 0;
}
