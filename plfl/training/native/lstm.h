// The LSTM of a group of 16 samples, forward and backward.

#pragma once

#include "model.h"

namespace {

// The places in memory of a group's numbers for the LSTM.
struct LstmMemory {
  LstmMemory(const Layout& layout, Rows& rows) : gate_rows(layout.lstm.panels() * kPanel) {
    const int steps = layout.steps, hidden = layout.hidden;
    inputs = rows.add(steps * layout.lstm_inputs());
    gates = rows.add(steps * gate_rows);
    cells = rows.add(steps * hidden);
    tanh_cells = rows.add(steps * hidden);
    recurrent = rows.add(hidden);
    cell_gradient = rows.add(hidden);
  }

  int gate_rows;                     // gates of a time step, padded to whole panels
  std::ptrdiff_t inputs;             // [step][feature, one, one, hidden state]
  std::ptrdiff_t gates;              // [step][gate]; the backward pass turns it into its gradient
  std::ptrdiff_t cells, tanh_cells;  // [step][unit]
  std::ptrdiff_t recurrent, cell_gradient;  // [unit]
};

class Lstm {
 public:
  // `memory` is zero at first. Rows of ones are written here, once.
  Lstm(const Layout& layout, const LstmMemory& at, float* memory)
      : layout_(layout), at_(at), memory_(memory) {
    for (int t = 0; t < layout.steps && layout.recurrent(); ++t)
      std::fill_n(inputs(t) + layout.features * kLanes, 2 * kLanes, 1.0f);
  }

  // The place for the features of time step t.
  float* inputs(int t) const { return memory_ + at_.inputs + t * layout_.lstm_inputs() * kLanes; }

  // Writes the hidden states [step][unit].
  void forward(const float* model, float* states) {
    for (int t = 0; t < layout_.steps; ++t) step(model, t, states + t * layout_.hidden * kLanes);
  }

  // Backpropagation through time from the gradient of the hidden states; leaves the gates' gradient
  // in `gates`, transposed.
  void backward(const float* model, const float* dstates) {
    const int hidden = layout_.hidden;
    std::fill_n(memory_ + at_.recurrent, 2 * hidden * kLanes, 0.0f);
    for (int t = layout_.steps - 1; t >= 0; --t) {
      step_backward(t, dstates + t * hidden * kLanes);
      if (t > 0) {
        product(model, layout_.lstm, layout_.features + 2, hidden, layout_.gates(), gates(t),
                memory_ + at_.recurrent);
      }
      transpose(gates(t), gates(t), layout_.lstm.panels());
    }
  }

 private:
  float* gates(int t) const { return memory_ + at_.gates + t * at_.gate_rows * kLanes; }
  float* cells(int t) const { return memory_ + at_.cells + t * layout_.hidden * kLanes; }
  float* tanh_cells(int t) const { return memory_ + at_.tanh_cells + t * layout_.hidden * kLanes; }

  void step(const float* model, int t, float* output) {
    const int hidden = layout_.hidden, all = hidden * kLanes;
    float* gate = gates(t);
    // There is no hidden state before the first step; its rows are the last ones, so they are left
    // out.
    const int rows = t > 0 ? layout_.lstm_inputs() : layout_.features + 2;
    transposed_product(model, layout_.lstm, rows, layout_.gates(), inputs(t), gate);
    // The backward pass has filled the padding; it must be zero again.
    std::fill(gate + 4 * all, gate + at_.gate_rows * kLanes, 0.0f);
    const float* previous = t > 0 ? cells(t - 1) : nullptr;
    float *cell = cells(t), *tanh_cell = tanh_cells(t);
    float* next = t + 1 < layout_.steps ? inputs(t + 1) + (layout_.features + 2) * kLanes : nullptr;
    for (int i = 0; i < all; i += W) {
      Exponential e[4];
      exponentials({for_sigmoid(load(gate + i)), for_sigmoid(load(gate + all + i)),
                    for_tangent(load(gate + 2 * all + i)), for_sigmoid(load(gate + 3 * all + i))},
                   e);
      const V input = sigmoid(e[0]), forget = sigmoid(e[1]), candidate = hyperbolic_tangent(e[2]);
      store(gate + i, input);
      store(gate + all + i, forget);
      store(gate + 2 * all + i, candidate);
      store(gate + 3 * all + i, sigmoid(e[3]));
      V c = input * candidate;
      if (previous) c += forget * load(previous + i);
      store(cell + i, c);
    }
    by_fours(all / W, [&](auto size, int first) {  // by itself: one long chain would stall
      V x[size];
      Exponential e[size];
      for (int k = 0; k < size; ++k) x[k] = for_tangent(load(cell + first + k * W));
      exponentials(x, e);
      for (int k = 0; k < size; ++k) {
        const int i = first + k * W;
        const V squashed = hyperbolic_tangent(e[k]), h = load(gate + 3 * all + i) * squashed;
        store(tanh_cell + i, squashed);
        store(output + i, h);
        if (next) store(next + i, h);
      }
    });
  }

  void step_backward(int t, const float* dh_above) {
    const int all = layout_.hidden * kLanes;
    float* gate = gates(t);
    float* dcell = memory_ + at_.cell_gradient;
    const float *tanh_cell = tanh_cells(t), *recurrent = memory_ + at_.recurrent;
    const float* previous = t > 0 ? cells(t - 1) : nullptr;
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

  const Layout& layout_;
  const LstmMemory& at_;
  float* memory_;
};

}  // namespace
