// Activations of a group of 16 samples, forward and backward.

#pragma once

#include "model.h"

namespace {

// Where a group keeps what; all groups of a batch lie behind one another in one piece of memory.
struct GroupLayout {
  explicit GroupLayout(const Layout& layout) {
    const int steps = layout.steps, hidden = layout.hidden;
    gate_rows = layout.lstm.panels() * kPanel;
    inputs = add(steps * layout.lstm_inputs());
    gates = add(steps * gate_rows);
    cells = add(steps * hidden);
    tanh_cells = add(steps * hidden);
    recurrent = add(hidden);
    cell_gradient = add(hidden);
    for (const Matrix& matrix : layout.mlp) {
      x.push_back(add(matrix.panels() * kPanel));
      xt.push_back(add(matrix.panels() * kPanel));
      z.push_back(add(matrix.rows));
      dx.push_back(add(matrix.columns));
      slope_terms.push_back(add(panels_of(matrix.rows) * kPanel));
    }
    dx.push_back(add(1));
  }

  int gate_rows;               // gates of a time step, padded to whole panels
  std::ptrdiff_t inputs;       // [step][feature, one, one, hidden state]
  std::ptrdiff_t gates;        // [step][gate]; the backward pass turns it into its gradient
  std::ptrdiff_t cells, tanh_cells;              // [step][unit]
  std::ptrdiff_t recurrent, cell_gradient;       // [unit]
  std::vector<std::ptrdiff_t> x, xt;             // inputs of each MLP matrix, and transposed
  std::vector<std::ptrdiff_t> z;                 // its outputs before the PReLU
  std::vector<std::ptrdiff_t> dx;                // gradient of its inputs; the last: of the output
  std::vector<std::ptrdiff_t> slope_terms;       // gradient of its slopes, one term a sample
  std::ptrdiff_t size = 0;

 private:
  std::ptrdiff_t add(int rows) {
    const std::ptrdiff_t start = size;
    size += std::ptrdiff_t(rows) * kLanes;
    return start;
  }
};

class Group {
 public:
  // `memory` is zero at first. Rows of ones are written here, once; rows of padding stay zero, so
  // that the gradient of padding is zero and padding never changes.
  Group(const Layout& layout, const GroupLayout& at, float* memory)
      : layout_(layout), at_(at), memory_(memory) {
    for (int t = 0; t < layout.steps; ++t)
      std::fill_n(inputs(t) + layout.features * kLanes, 2 * kLanes, 1.0f);
    for (std::size_t j = 0; j < layout.mlp.size(); ++j)
      std::fill_n(memory + at.x[j] + layout.widths[j] * kLanes, kLanes, 1.0f);
  }

  // Predictions of the windows that start at `starts[0 : count]`, 1 ≤ count ≤ 16. Spare lanes
  // repeat the last window.
  const float* forward(const float* model, const float* table, const std::int64_t* starts,
                       int count) {
    gather(table, starts, count);
    for (int t = 0; t < layout_.steps; ++t) lstm_step(model, t);
    const int last = layout_.hidden_layers();
    for (int j = 0; j < last; ++j) {
      const Matrix& matrix = layout_.mlp[j];
      const int inputs = layout_.widths[j];
      product(model, matrix, 0, matrix.rows, inputs + 1, memory_ + at_.x[j], memory_ + at_.z[j]);
      prelu(model, matrix, inputs + 1, memory_ + at_.z[j], memory_ + at_.x[j + 1]);
    }
    float* output = memory_ + at_.z[last];
    product(model, layout_.mlp[last], 0, 1, layout_.widths[last] + 1, memory_ + at_.x[last],
            output);
    for (int lane = 0; lane < kLanes; ++lane)
      prediction_[lane] = layout_.absolute ? std::fabs(output[lane]) : output[lane];
    return prediction_;
  }

  // Σ (prediction − target)² of this group; without `targets` they are the windows' own. `scale` is
  // that of the gradient of the output, which is left behind, zero in spare lanes.
  float loss(const float* table, const std::int64_t* starts, const float* targets, int count,
             float scale) {
    const float* output = memory_ + at_.z[layout_.hidden_layers()];
    float* gradient = memory_ + at_.dx[layout_.mlp.size()];
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane >= count) {
        gradient[lane] = 0.0f;
        continue;
      }
      const float target =
          targets ? targets[lane] : table[(starts[lane] + layout_.target) * layout_.features];
      const float error = prediction_[lane] - target;
      float sign = 1.0f;
      if (layout_.absolute) sign = float(output[lane] > 0.0f) - float(output[lane] < 0.0f);
      gradient[lane] = scale * error * sign;
      sum += error * error;
    }
    return sum;
  }

  // From the gradient of layer j's outputs to that of its inputs, past the PReLU that made them.
  void mlp_backward(const float* model, int j) {
    const Matrix& matrix = layout_.mlp[j];
    const int inputs = layout_.widths[j];
    transpose(memory_ + at_.x[j], memory_ + at_.xt[j], matrix.panels());
    transposed_product(model, matrix, matrix.rows, inputs, memory_ + at_.dx[j + 1],
                       memory_ + at_.dx[j]);
    if (j > 0) prelu_backward(model, j - 1);
  }

  // Backpropagation through time; leaves the gates' gradient in `gates`, transposed.
  void lstm_backward(const float* model) {
    const int hidden = layout_.hidden;
    std::fill_n(memory_ + at_.recurrent, 2 * hidden * kLanes, 0.0f);
    for (int t = layout_.steps - 1; t >= 0; --t) {
      lstm_step_backward(t);
      if (t > 0) {
        product(model, layout_.lstm, layout_.features + 2, hidden, layout_.gates(), gates(t),
                memory_ + at_.recurrent);
      }
      transpose(gates(t), gates(t), layout_.lstm.panels());
    }
  }

  // Fetch the rows that `starts` will need, which lie far apart in a table larger than the cache.
  void prefetch(const float* table, const std::int64_t* starts, int count) const {
    const int window = layout_.steps * layout_.features;
    for (int lane = 0; lane < count; ++lane) {
      const float* row = table + starts[lane] * layout_.features;
      for (int i = 0; i < window; i += kAlignment / sizeof(float)) __builtin_prefetch(row + i);
      __builtin_prefetch(row + window - 1);
      __builtin_prefetch(table + (starts[lane] + layout_.target) * layout_.features);
    }
  }

 private:
  float* inputs(int t) const { return memory_ + at_.inputs + t * layout_.lstm_inputs() * kLanes; }
  float* gates(int t) const { return memory_ + at_.gates + t * at_.gate_rows * kLanes; }
  float* cells(int t) const { return memory_ + at_.cells + t * layout_.hidden * kLanes; }
  float* tanh_cells(int t) const { return memory_ + at_.tanh_cells + t * layout_.hidden * kLanes; }

  void gather(const float* table, const std::int64_t* starts, int count) {
    const int features = layout_.features;
    for (int lane = 0; lane < kLanes; ++lane) {
      const float* row = table + starts[std::min(lane, count - 1)] * features;
      for (int t = 0; t < layout_.steps; ++t, row += features) {
        float* to = inputs(t) + lane;
        for (int f = 0; f < features; ++f) to[f * kLanes] = row[f];
      }
    }
  }

  void lstm_step(const float* model, int t) {
    const int hidden = layout_.hidden, all = hidden * kLanes;
    float* gate = gates(t);
    // There is no hidden state before the first step, and its rows come last.
    const int rows = t > 0 ? layout_.lstm_inputs() : layout_.features + 2;
    transposed_product(model, layout_.lstm, rows, layout_.gates(), inputs(t), gate);
    // The backward pass has filled the padding; it must be zero again.
    std::fill(gate + 4 * all, gate + at_.gate_rows * kLanes, 0.0f);
    const float* previous = t > 0 ? cells(t - 1) : nullptr;
    float *cell = cells(t), *tanh_cell = tanh_cells(t);
    float* output = memory_ + at_.x[0] + t * all;
    float* next = t + 1 < layout_.steps ? inputs(t + 1) + (layout_.features + 2) * kLanes : nullptr;
    for (int i = 0; i < all; i += W) {
      const V input = sigmoid(load(gate + i)), forget = sigmoid(load(gate + all + i));
      const V candidate = hyperbolic_tangent(load(gate + 2 * all + i));
      const V exposed = sigmoid(load(gate + 3 * all + i));
      store(gate + i, input);
      store(gate + all + i, forget);
      store(gate + 2 * all + i, candidate);
      store(gate + 3 * all + i, exposed);
      V c = input * candidate;
      if (previous) c += forget * load(previous + i);
      store(cell + i, c);
    }
    for (int i = 0; i < all; i += W) {  // by itself: one long chain of operations would stall
      const V squashed = hyperbolic_tangent(load(cell + i));
      const V h = load(gate + 3 * all + i) * squashed;
      store(tanh_cell + i, squashed);
      store(output + i, h);
      if (next) store(next + i, h);
    }
  }

  void lstm_step_backward(int t) {
    const int all = layout_.hidden * kLanes;
    float* gate = gates(t);
    float* dcell = memory_ + at_.cell_gradient;
    const float *tanh_cell = tanh_cells(t), *recurrent = memory_ + at_.recurrent;
    const float* previous = t > 0 ? cells(t - 1) : nullptr;
    const float* dh_above = memory_ + at_.dx[0] + t * all;
    for (int i = 0; i < all; i += W) {
      const V input = load(gate + i), forget = load(gate + all + i);
      const V candidate = load(gate + 2 * all + i), exposed = load(gate + 3 * all + i);
      const V squashed = load(tanh_cell + i);
      const V dh = load(dh_above + i) + load(recurrent + i);
      const V dc = load(dcell + i) + dh * exposed * (1.0f - squashed * squashed);
      const V c = previous ? load(previous + i) : V{};
      store(gate + i, dc * candidate * (input * (1.0f - input)));
      store(gate + all + i, dc * c * (forget * (1.0f - forget)));
      store(gate + 2 * all + i, dc * input * (1.0f - candidate * candidate));
      store(gate + 3 * all + i, dh * squashed * (exposed * (1.0f - exposed)));
      store(dcell + i, dc * forget);
    }
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

  // Turns the gradient of layer j's outputs into that of its `z`, and notes the slopes' gradient.
  void prelu_backward(const float* model, int j) {
    const Matrix& matrix = layout_.mlp[j];
    const float* z = memory_ + at_.z[j];
    float *dz = memory_ + at_.dx[j + 1], *terms = memory_ + at_.slope_terms[j];
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
  const GroupLayout& at_;
  float* memory_;
  float prediction_[kLanes];
};

}  // namespace
