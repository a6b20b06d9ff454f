// Generates text with a small transformer: an inference loop whose kernels were compiled from
// Python files when this program was built. It needs no Python, no compiler and no Nereid library
// to run.
//
//   transformer [cpu|cuda] [--large]
//
// The model is random, so what it says means nothing; that it computes what a transformer computes
// is checked against plain C++ in double precision. --large takes a model of a size that is worth a
// GPU, and only measures.
#include "reference.h"

#include "attention.h"
#include "embed.h"
#include "greedy.h"
#include "matmul.h"
#include "rms_norm.h"
#include "rope_and_cache.h"
#include "silu_gate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

namespace {

using nereid::Buffer, nereid::Device, nereid::Grid, nereid::Launch, nereid::Stream;

template <typename T> T narrow(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return T::from(value);
}
float widen(float value) {
  return value;
}
float widen(nereid::half value) {
  return value.toFloat();
}

int blocks(int count, int size) {
  return (count + size - 1) / size;
}

/// Random weights, rounded to what the kernels compute with.
template <typename T> Weights randomWeights(const Sizes &sizes) {
  std::mt19937 generator(7);
  auto matrix = [&](int inputs, int outputs) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(float(inputs)));
    std::vector<float> values(size_t(inputs) * size_t(outputs));
    for (float &value : values)
      value = widen(narrow<T>(normal(generator)));
    return values;
  };
  auto ones = [&](int count) {
    std::vector<float> values(size_t(count), 1.0f);
    for (size_t i = 0; i < values.size(); i += 3)
      values[i] = 0.875f;
    return values;
  };
  int columns = sizes.columns();
  Weights weights;
  weights.table = matrix(1, sizes.words * columns);
  weights.norm = ones(columns);
  weights.head = matrix(columns, sizes.words);
  for (int i = 0; i < sizes.layers; ++i)
    weights.layers.push_back({ones(columns), matrix(columns, 3 * columns), matrix(columns, columns),
                              ones(columns), matrix(columns, 2 * sizes.hidden),
                              matrix(sizes.hidden, columns)});
  return weights;
}

/// The model on a device, with its cache.
template <typename T> class Model {
public:
  Model(const Sizes &sizes, const Weights &weights, const Stream &stream)
      : sizes(sizes), stream(stream), device(stream.device()), table(upload(weights.table)),
        norm(upload(weights.norm)), head(upload(weights.head)) {
    for (const Weights::Layer &layer : weights.layers)
      layers.push_back({upload(layer.norm1), upload(layer.qkv), upload(layer.out),
                        upload(layer.norm2), upload(layer.gateUp), upload(layer.down),
                        rows<T>(sizes.positions, sizes.columns()),
                        rows<T>(sizes.positions, sizes.columns())});
    int most = sizes.positions, columns = sizes.columns();
    tokens = rows<int32_t>(sizes.positions + 1, 1);
    x = rows<T>(most, columns);
    y = rows<T>(most, columns);
    normed = rows<T>(most, columns);
    qkv = rows<T>(most, 3 * columns);
    attended = rows<T>(most, columns);
    gateUp = rows<T>(most, 2 * sizes.hidden);
    gated = rows<T>(most, sizes.hidden);
    logits = rows<T>(1, sizes.words);
  }

  /// The prompt, at the beginning of the text.
  void begin(const std::vector<int32_t> &prompt) { tokens.copyFrom(prompt, stream); }

  /// Processes the tokens from position `start` on, and writes the next one behind them. Queued on
  /// the stream: nothing is waited for.
  void step(int start, int count) {
    int columns = sizes.columns();
    kernels::embed({count}, stream, tokens.view().part(size_t(start)), table, x, columns);
    for (Layer &layer : layers) {
      kernels::rms_norm({count}, stream, x, layer.norm1, normed, columns, epsilon);
      multiply(normed, layer.qkv, nullptr, qkv, count, 3 * columns, columns);
      kernels::rope_and_cache(Grid(count, sizes.heads), stream, qkv, layer.keys, layer.values,
                              start, sizes.heads);
      int block = count > 16 ? 64 : 16;
      kernels::attention(Grid(blocks(count, block), sizes.heads), stream, qkv, layer.keys,
                         layer.values, attended, start, count,
                         1.4426950408889634 / std::sqrt(double(Sizes::head)), sizes.heads, block);
      multiply(attended, layer.out, x, y, count, columns, columns);
      kernels::rms_norm({count}, stream, y, layer.norm2, normed, columns, epsilon);
      multiply(normed, layer.gateUp, nullptr, gateUp, count, 2 * sizes.hidden, columns);
      kernels::silu_gate(Grid(count, blocks(sizes.hidden, kernels::silu_gate_kernel::BLOCK)),
                         stream, gateUp, gated, sizes.hidden);
      multiply(gated, layer.down, y, x, count, columns, sizes.hidden);
    }
    kernels::rms_norm({count}, stream, x, norm, normed, columns, epsilon);
    // Only what follows the last token is wanted.
    auto last = normed.view().part(size_t(count - 1) * size_t(columns));
    multiply(last, head, nullptr, logits, 1, sizes.words, columns);
    kernels::greedy({1}, stream, logits, tokens.view().part(size_t(start + count)), sizes.words);
  }

  std::vector<int32_t> text(int count) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    tokens.copyTo(values, stream);
    stream.synchronize();
    return values;
  }
  std::vector<float> lastLogits() {
    std::vector<T> values(logits.size());
    logits.copyTo(values, stream);
    stream.synchronize();
    std::vector<float> wide;
    for (T value : values)
      wide.push_back(widen(value));
    return wide;
  }

private:
  struct Layer {
    Buffer<T> norm1, qkv, out, norm2, gateUp, down, keys, values;
  };

  template <typename Element> Buffer<Element> rows(int count, int columns) {
    return Buffer<Element>::allocate(device, size_t(count) * size_t(columns));
  }
  Buffer<T> upload(const std::vector<float> &values) {
    std::vector<T> narrowed;
    for (float value : values)
      narrowed.push_back(narrow<T>(value));
    auto buffer = Buffer<T>::allocate(device, values.size());
    buffer.copyFrom(narrowed);
    return buffer;
  }

  /// c = a b + residual.
  void multiply(nereid::Pointer<const T> a, nereid::Pointer<const T> b,
                nereid::Pointer<const T> residual, nereid::Pointer<T> c, int m, int n, int k) {
    int block = m > 16 ? 64 : 16;
    kernels::matmul(Grid(blocks(m, block), blocks(n, kernels::matmul_kernel::BLOCK_N)), stream,
                    a.address, b.address, residual.address, c.address, m, n, k, block);
  }

  Sizes sizes;
  const Stream &stream;
  Device device;
  Buffer<T> table, norm, head;
  std::vector<Layer> layers;
  Buffer<int32_t> tokens;
  Buffer<T> x, y, normed, qkv, attended, gateUp, gated, logits;
};

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Generates text and compares the logits after every token with those of the reference.
template <typename T> bool check(const Stream &stream, double allowed) {
  Sizes sizes;
  Weights weights = randomWeights<T>(sizes);
  Model<T> model(sizes, weights, stream);
  const std::vector<int32_t> prompt = {1,   2,   3,   5,  8,  13, 21, 34, 55, 89,
                                       144, 233, 377, 10, 11, 12, 4,  6,  7};
  int length = int(prompt.size());
  model.begin(prompt);
  std::vector<std::vector<float>> found;
  for (int start = 0, count = length; found.size() < 6; start += count, count = 1) {
    model.step(start, count);
    found.push_back(model.lastLogits());
  }
  std::vector<int32_t> text = model.text(length + int(found.size()));
  std::vector<double> logits =
      referenceLogits(sizes, weights, std::vector<int>(text.begin(), text.end()));
  double largest = 0;
  bool greedy = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const double *expected = &logits[(size_t(length) - 1 + i) * size_t(sizes.words)];
    for (size_t word = 0; word < found[i].size(); ++word)
      largest = std::fmax(largest, std::fabs(found[i][word] - expected[word]));
    auto best = std::max_element(found[i].begin(), found[i].end()) - found[i].begin();
    greedy &= text[size_t(length) + i] == best;
  }
  bool good = largest <= allowed && greedy; // false for NaN
  std::printf("%zu tokens, largest error of a logit %.2g (allowed %.2g), the most likely words are "
              "taken: %s\n",
              found.size(), largest, allowed, greedy && good ? "correct" : "WRONG");
  return good;
}

template <typename T> void measure(const Stream &stream, const Sizes &sizes, int length, int more) {
  Weights weights = randomWeights<T>(sizes);
  Model<T> model(sizes, weights, stream);
  std::vector<int32_t> prompt;
  for (int i = 0; i < length; ++i)
    prompt.push_back(i * 31 % sizes.words);
  model.begin(prompt);
  model.step(0, length); // loads the kernels
  model.step(length, 1);
  stream.synchronize();
  auto start = std::chrono::steady_clock::now();
  model.step(0, length);
  stream.synchronize();
  double prefill = secondsSince(start);
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < more; ++i)
    model.step(length + i, 1);
  stream.synchronize();
  double decode = secondsSince(start);
  std::printf(
      "%d layers of %d columns: prompt of %d tokens %.0f tokens/s, then %.0f tokens/s (%.3f "
      "ms a token, %d launches)\n",
      sizes.layers, sizes.columns(), length, length / prefill, more / decode, decode / more * 1e3,
      10 * sizes.layers + 4);
}

template <typename T> int run(const Stream &stream, double allowed, bool large) {
  Sizes sizes;
  if (large) {
    sizes.layers = 8;
    sizes.heads = 16;
    sizes.hidden = 4096;
    sizes.words = 1024;
    measure<T>(stream, sizes, 256, 200);
    return 0;
  }
  bool good = check<T>(stream, allowed);
  measure<T>(stream, sizes, 100, 50);
  return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  bool isGpu = false, large = false;
  for (int i = 1; i < argc; ++i) {
    isGpu |= std::strcmp(argv[i], "cuda") == 0;
    large |= std::strcmp(argv[i], "--large") == 0;
  }
  try {
    Stream stream = Stream::create(isGpu ? Device::cuda() : Device::cpu());
    std::printf("%s\n", stream.device().info().name);
#if defined(FOR_CUDA)
    if (isGpu)
      return run<nereid::half>(stream, 0.03, large);
#endif
    return run<float>(stream, 2e-5, large);
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
