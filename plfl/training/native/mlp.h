// The MLP of a group of 16 samples, forward and backward.

#pragma once

#include "model.h"

namespace {

// The places in memory of a group's numbers for the MLP.
struct MlpMemory {
  MlpMemory(const Layout& layout, Rows& rows) {
    for (const Matrix& matrix : layout.mlp) {
      x.push_back(rows.add(matrix.panels() * kPanel));
      xt.push_back(rows.add(matrix.panels() * kPanel));
      z.push_back(rows.add(matrix.rows));
      const bool slopes = layout.activation == kPrelu;
      terms.push_back(rows.add(slopes ? panels_of(matrix.rows) * kPanel : 0));
    }
    dx = x;
    dx.push_back(z.back());
  }

  // The cache is small, so the backward pass overwrites numbers that are no longer needed.
  std::vector<std::ptrdiff_t> x, xt;  // inputs of each matrix, and transposed
  // Outputs of each matrix before the activation; for SiLU, replaced by its derivative.
  std::vector<std::ptrdiff_t> z;
  // Gradient of the inputs, which it replaces; the last one: of the outputs, which it replaces.
  std::vector<std::ptrdiff_t> dx;
  std::vector<std::ptrdiff_t> terms;  // gradient of PReLU's slopes, per sample, transposed
};

class Mlp {
 public:
  // `memory` is zero at first. Rows of ones are written here, once; rows of padding stay zero, so
  // that the gradient of padding is zero and padding never changes. Inputs that come transposed
  // have the ones there, too.
  Mlp(const Layout& layout, const MlpMemory& at, float* memory)
      : layout_(layout), at_(at), memory_(memory) {
    for (std::size_t j = 0; j < layout.mlp.size(); ++j)
      std::fill_n(memory + at.x[j] + layout.widths[j] * kLanes, kLanes, 1.0f);
    transpose(inputs(), inputs_transposed(), layout.mlp[0].panels());
  }

  float* inputs() const { return memory_ + at_.x[0]; }
  // The inputs as [panel][sample][16]; `read_transposed` takes them from there.
  float* inputs_transposed() const { return memory_ + at_.xt[0]; }
  void read_transposed() { transpose(inputs_transposed(), inputs(), layout_.mlp[0].panels()); }
  const float* inputs_gradient() const { return memory_ + at_.dx[0]; }
  // [output][sample]; later replaced by their gradient.
  const float* outputs() const { return memory_ + at_.z[layout_.hidden_layers()]; }
  float* outputs_gradient() const { return memory_ + at_.dx[layout_.mlp.size()]; }

  void forward(const float* model) {
    hide(model, layout_.hidden_layers());
    sum(model, layout_.hidden_layers());
  }

  // Layers 0 to j − 1, which make the inputs of layer j.
  void hide(const float* model, int j) {
    for (int i = 0; i < j; ++i) {
      sum(model, i);
      activate(model, i);
    }
  }

  // The inputs [input][sample] of layer j.
  const float* inputs_of(int j) const { return memory_ + at_.x[j]; }

  // From the gradient of layer j's outputs to that of its inputs, before the activation that made
  // them. `added` [input][sample] is a further gradient of these inputs; it may be null. If the
  // inputs are the window, because there is no LSTM, their gradient is not needed.
  void backward(const float* model, int j, const float* added) {
    const Matrix& matrix = layout_.mlp[j];
    if (j == 0 && !layout_.recurrent()) return;
    transpose(memory_ + at_.x[j], memory_ + at_.xt[j], matrix.panels());
    float* dx = memory_ + at_.dx[j];
    transposed_product(model, matrix, matrix.rows, layout_.widths[j], memory_ + at_.dx[j + 1], dx);
    for (int i = 0; added && i < layout_.widths[j] * kLanes; i += W)
      store(dx + i, load(dx + i) + load(added + i));
    if (j > 0) activate_backward(model, j - 1);
  }

 private:
  // The outputs of layer j before the activation.
  void sum(const float* model, int j) {
    const Matrix& matrix = layout_.mlp[j];
    product(model, matrix, 0, matrix.rows, layout_.widths[j] + 1, memory_ + at_.x[j],
            memory_ + at_.z[j]);
  }

  void activate(const float* model, int j) {
    float *z = memory_ + at_.z[j], *y = memory_ + at_.x[j + 1];
    const Matrix& matrix = layout_.mlp[j];
    if (layout_.activation == kSilu) return silu(z, y, matrix.rows);
    prelu(model, matrix, layout_.widths[j] + 1, z, y);
  }

  // x ← x · factors
  static void scale(float* x, const float* factors, int rows) {
    for (int i = 0; i < rows * kLanes; i += W) store(x + i, load(x + i) * load(factors + i));
  }

  // Turns the gradient of layer j's outputs into that of its `z`.
  void activate_backward(const float* model, int j) {
    float* dz = memory_ + at_.dx[j + 1];
    if (layout_.activation == kPrelu) return prelu_backward(model, j);
    scale(dz, memory_ + at_.z[j], layout_.mlp[j].rows);
  }

  static void silu(float* z, float* y, int rows) {
    by_fours(rows * kVectors, [&](auto size, int first) {
      V x[size];
      Exponential e[size];
      for (int k = 0; k < size; ++k) x[k] = for_sigmoid(load(z + first + k * W));
      exponentials(x, e);
      for (int k = 0; k < size; ++k) {
        const int i = first + k * W;
        const V s = sigmoid(e[k]), out = load(z + i) * s;
        store(y + i, out);
        store(z + i, s + out * (1.0f - s));
      }
    });
  }

  void prelu(const float* model, const Matrix& matrix, int slopes, const float* z, float* y) {
    for (int r = 0; r < matrix.rows; ++r) {
      const float slope = model[matrix.at(r, slopes)];
      for (int i = r * kLanes; i < (r + 1) * kLanes; i += W) {
        const V value = load(z + i);
        store(y + i, value > 0.0f ? value : slope * value);
      }
    }
  }

  // Also stores the slopes' gradient.
  void prelu_backward(const float* model, int j) {
    const Matrix& matrix = layout_.mlp[j];
    const float* z = memory_ + at_.z[j];
    float *dz = memory_ + at_.dx[j + 1], *terms = memory_ + at_.terms[j];
    for (int r = 0; r < matrix.rows; ++r) {
      const float slope = model[matrix.at(r, layout_.widths[j] + 1)];
      for (int i = r * kLanes; i < (r + 1) * kLanes; i += W) {
        const V value = load(z + i), gradient = load(dz + i);
        store(terms + i, value > 0.0f ? V{} : gradient * value);
        store(dz + i, value > 0.0f ? gradient : slope * gradient);
      }
    }
    transpose(terms, terms, panels_of(matrix.rows));
  }

  const Layout& layout_;
  const MlpMemory& at_;
  float* memory_;
};

}  // namespace
