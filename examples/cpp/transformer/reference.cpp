#include "reference.h"

#include <algorithm>
#include <cmath>

namespace {

using Rows = std::vector<double>;

/// a [rows, inputs] times b [inputs, outputs].
Rows product(const Rows &a, const std::vector<float> &b, size_t rows, size_t inputs,
             size_t outputs) {
  Rows c(rows * outputs);
  for (size_t i = 0; i < rows; ++i)
    for (size_t k = 0; k < inputs; ++k)
      for (size_t j = 0; j < outputs; ++j)
        c[i * outputs + j] += a[i * inputs + k] * double(b[k * outputs + j]);
  return c;
}

Rows normalised(const Rows &x, const std::vector<float> &weight) {
  Rows out(x.size());
  size_t columns = weight.size();
  for (size_t row = 0; row < x.size(); row += columns) {
    double squares = 0;
    for (size_t j = 0; j < columns; ++j)
      squares += x[row + j] * x[row + j];
    double scale = 1 / std::sqrt(squares / double(columns) + epsilon);
    for (size_t j = 0; j < columns; ++j)
      out[row + j] = x[row + j] * scale * double(weight[j]);
  }
  return out;
}

/// One head of one token, turned by its position.
void rotate(double *head, size_t position) {
  constexpr size_t half = Sizes::head / 2;
  for (size_t i = 0; i < half; ++i) {
    double angle = double(position) * std::pow(10000.0, -double(i) / half);
    double low = head[i], high = head[i + half];
    head[i] = low * std::cos(angle) - high * std::sin(angle);
    head[i + half] = high * std::cos(angle) + low * std::sin(angle);
  }
}

/// Causal attention; qkv is [tokens, 3, heads, head].
Rows attention(Rows qkv, size_t tokens, size_t heads) {
  constexpr size_t size = Sizes::head;
  size_t columns = heads * size;
  Rows out(tokens * columns), scores(tokens);
  for (size_t t = 0; t < tokens; ++t)
    for (size_t h = 0; h < 2 * heads; ++h) // queries and keys
      rotate(&qkv[t * 3 * columns + h * size], t);
  for (size_t t = 0; t < tokens; ++t)
    for (size_t h = 0; h < heads; ++h) {
      const double *q = &qkv[t * 3 * columns + h * size];
      double largest = -INFINITY, total = 0;
      for (size_t s = 0; s <= t; ++s) {
        const double *k = &qkv[s * 3 * columns + columns + h * size];
        double dot = 0;
        for (size_t i = 0; i < size; ++i)
          dot += q[i] * k[i];
        scores[s] = dot / std::sqrt(double(size));
        largest = std::max(largest, scores[s]);
      }
      for (size_t s = 0; s <= t; ++s)
        total += scores[s] = std::exp(scores[s] - largest);
      for (size_t s = 0; s <= t; ++s) {
        const double *v = &qkv[s * 3 * columns + 2 * columns + h * size];
        for (size_t i = 0; i < size; ++i)
          out[t * columns + h * size + i] += scores[s] / total * v[i];
      }
    }
  return out;
}

void addTo(Rows &x, const Rows &y) {
  for (size_t i = 0; i < x.size(); ++i)
    x[i] += y[i];
}

} // namespace

std::vector<double> referenceLogits(const Sizes &sizes, const Weights &weights,
                                    const std::vector<int> &tokens) {
  size_t count = tokens.size(), columns = size_t(sizes.columns()), hidden = size_t(sizes.hidden);
  Rows x;
  for (int token : tokens)
    x.insert(x.end(), &weights.table[size_t(token) * columns],
             &weights.table[size_t(token) * columns] + columns);
  for (const Weights::Layer &layer : weights.layers) {
    Rows qkv = product(normalised(x, layer.norm1), layer.qkv, count, columns, 3 * columns);
    Rows attended = attention(std::move(qkv), count, size_t(sizes.heads));
    addTo(x, product(attended, layer.out, count, columns, columns));
    Rows gateUp = product(normalised(x, layer.norm2), layer.gateUp, count, columns, 2 * hidden);
    Rows gated(count * hidden);
    for (size_t t = 0; t < count; ++t)
      for (size_t j = 0; j < hidden; ++j) {
        double gate = gateUp[t * 2 * hidden + j];
        gated[t * hidden + j] = gate / (1 + std::exp(-gate)) * gateUp[(t * 2 + 1) * hidden + j];
      }
    addTo(x, product(gated, layer.down, count, hidden, columns));
  }
  return product(normalised(x, weights.norm), weights.head, count, columns, size_t(sizes.words));
}
