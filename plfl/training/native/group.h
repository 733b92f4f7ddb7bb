// Windows, forecasts and losses of a group of 16 samples.

#pragma once

#include "lstm.h"
#include "mlp.h"

namespace {

// The tables that windows are read from; a window is identified by its first row.
extern "C" struct PlflWindows {
  const float* features;    // [rows][features], the load first
  const float* covariates;  // [rows][covariates], of the window whose last row this is
  const float* targets;     // [rows][horizons], likewise
  std::int32_t horizons;    // targets of a window
  std::int32_t relative;    // whether the last load is subtracted from those of a window
};

// All are losses of errors, output by output, except the last, whose outputs are the quantiles of
// each target.
enum LossKind { kSquared = 0, kAbsolute = 1, kHuber = 2, kPinball = 3 };

struct Loss {
  int kind;
  const float* levels;  // of the quantiles, ascending
  int count;            // of them; 1 for the other losses
};

// The places of a group's numbers in memory; all groups of a batch follow each other in one piece.
struct GroupLayout {
  explicit GroupLayout(const Layout& layout, Rows rows = {})
      : lstm(layout, rows), mlp(layout, rows), size(rows.size) {}

  const LstmMemory lstm;
  const MlpMemory mlp;
  const std::ptrdiff_t size;
};

class Group {
 public:
  // `memory` is zero at first.
  Group(const Layout& layout, const GroupLayout& at, float* memory)
      : layout_(layout), lstm_(layout, at.lstm, memory), mlp_(layout, at.mlp, memory) {}

  // Read the windows that start at `starts[0 : count]`, 1 ≤ count ≤ 16. Spare lanes repeat the last
  // window.
  void read(const PlflWindows& windows, const std::int64_t* starts, int count) {
    if (layout_.recurrent()) return gather_steps(windows, starts, count);
    gather_rows(windows, starts, count);
    mlp_.read_transposed();
  }

  // Make predictions for these windows.
  void forward(const float* model) {
    if (layout_.recurrent()) lstm_.forward(model, mlp_.inputs());
    mlp_.forward(model);
  }

  // A prediction of the last `forward`.
  float prediction(int output, int sample) const {
    const float value = mlp_.outputs()[output * kLanes + sample];
    return layout_.absolute ? std::fabs(value) : value;
  }

  // A model's inputs [input][sample] of layer `j` of its MLP, for these windows.
  const float* features(const float* model, int j) {
    if (layout_.recurrent()) lstm_.forward(model, mlp_.inputs());
    mlp_.hide(model, j);
    return mlp_.inputs_of(j);
  }

  // Compare the predictions with `targets` [sample][horizon]; null: with the windows' own targets.
  // Returns the sum of the losses. The outputs are replaced by their gradient times `scale`, which
  // is zero in spare lanes.
  float compare(const Loss& loss, const PlflWindows& windows, const std::int64_t* starts,
                const float* targets, int count, float scale) {
    switch (loss.kind) {
      case kSquared: return compare<kSquared>(loss, windows, starts, targets, count, scale);
      case kAbsolute: return compare<kAbsolute>(loss, windows, starts, targets, count, scale);
      case kHuber: return compare<kHuber>(loss, windows, starts, targets, count, scale);
      default: return compare<kPinball>(loss, windows, starts, targets, count, scale);
    }
  }

  // `added` is a further gradient of the inputs of layer j, or null.
  void mlp_backward(const float* model, int j, const float* added) {
    mlp_.backward(model, j, added);
  }
  void lstm_backward(const float* model) { lstm_.backward(model, mlp_.inputs_gradient()); }

  // Prefetch the memory that will be read for the window that starts at `start`.
  void prefetch(const PlflWindows& windows, std::int64_t start) const {
    const std::int64_t last = start + layout_.steps - 1;
    prefetch(windows.features + start * layout_.features, layout_.steps * layout_.features);
    prefetch(windows.covariates + last * layout_.covariates, layout_.covariates);
    prefetch(windows.targets + last * windows.horizons, windows.horizons);
  }

 private:
  static void prefetch(const float* from, int count) {
    if (count == 0) return;
    for (int i = 0; i < count; i += kAlignment / sizeof(float)) __builtin_prefetch(from + i);
    __builtin_prefetch(from + count - 1);
    asm volatile("");  // GCC removes calls of a function that only prefetches
  }

  // The load that is subtracted from those of a window.
  float level(const PlflWindows& windows, std::int64_t start) const {
    const std::int64_t last = start + layout_.steps - 1;
    return windows.relative ? windows.features[last * layout_.features] : 0.0f;
  }

  void gather_steps(const PlflWindows& windows, const std::int64_t* starts, int count) {
    const int features = layout_.features;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int64_t start = starts[std::min(lane, count - 1)];
      const float* row = windows.features + start * features;
      const float zero = level(windows, start);
      for (int t = 0; t < layout_.steps; ++t, row += features) {
        float* to = lstm_.inputs(t) + lane;
        for (int f = 0; f < features; ++f) to[f * kLanes] = row[f];
        to[0] -= zero;
      }
    }
  }

  void gather_rows(const PlflWindows& windows, const std::int64_t* starts, int count) {
    const int features = layout_.features, sequence = layout_.steps * features;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int64_t start = starts[std::min(lane, count - 1)];
      const float zero = level(windows, start);
      float* to = mlp_.inputs_transposed() + lane * kPanel;
      put(windows.features + start * features, sequence, features == 1 ? zero : 0.0f, to, 0);
      for (int i = 0; features > 1 && i < sequence; i += features) to[panelled(i)] -= zero;
      put(windows.covariates + (start + layout_.steps - 1) * layout_.covariates, layout_.covariates,
          0.0f, to, sequence);
    }
  }

  // The place of input i of a sample in [panel][sample][16].
  static int panelled(int i) { return i / kPanel * kBlock + i % kPanel; }

  // Write `count` numbers minus `zero` as the inputs of a sample, from input `first` on.
  static void put(const float* from, int count, float zero, float* to, int first) {
    for (int i = 0; i < count;) {
      const int size = std::min(kPanel - (first + i) % kPanel, count - i);
      float* piece = to + panelled(first + i);
      if (size == kPanel) {
        for (int k = 0; k < kPanel; k += W) {
          V numbers;
          std::memcpy(&numbers, from + i + k, sizeof numbers);  // they are not aligned
          store(piece + k, numbers - zero);
        }
      } else {
        for (int k = 0; k < size; ++k) piece[k] = from[i + k] - zero;
      }
      i += size;
    }
  }

  template <int kind>
  float compare(const Loss& loss, const PlflWindows& windows, const std::int64_t* starts,
                const float* targets, int count, float scale) {
    const int horizons = windows.horizons, quantiles = kind == kPinball ? loss.count : 1;
    const float factor = kind == kSquared ? 2.0f * scale : scale;
    const float* own[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int sample = std::min(lane, count - 1);
      own[lane] = targets ? targets + sample * horizons
                          : windows.targets + (starts[sample] + layout_.steps - 1) * horizons;
    }
    float sum = 0.0f, sum_before = 0.0f;  // of the losses of the last output, and of the others
    for (int v = 0; v < kLanes; v += W) {
      const VI counts = lanes_of(((1u << count) - 1) >> v);
      V left{}, right{}, before{};  // the loss is left · right; `before`: sum of earlier outputs
      int i = v;
      for (int h = 0; h < horizons; ++h) {
        V target;
        for (int k = 0; k < W; ++k) target[k] = own[v + k][h];
        for (int q = 0; q < quantiles; ++q, i += kLanes) {
          before += left * right;
          const V output = load(mlp_.outputs() + i);
          const V error = (layout_.absolute ? magnitude(output) : output) - target;
          // The slope of NaN is NaN.
          V slope = left = right = error;
          if (kind == kAbsolute) {
            slope = error > 0.0f ? splat(1.0f) : error < 0.0f ? splat(-1.0f) : error;
            left = splat(1.0f);
            right = magnitude(error);
          } else if (kind == kHuber) {
            slope = clamp(error, -1.0f, 1.0f);
            const V size = magnitude(error);
            left = size < 1.0f ? 0.5f * error : splat(1.0f);
            right = size < 1.0f ? error : size - 0.5f;
          } else if (kind == kPinball) {
            const V level = splat(loss.levels[q]);
            left = slope = error >= 0.0f ? 1.0f - level : error < 0.0f ? -level : error;
          }
          V gradient = factor * slope;
          if (layout_.absolute)
            gradient *= output > 0.0f ? splat(1.0f) : output < 0.0f ? splat(-1.0f) : V{};
          store(mlp_.outputs_gradient() + i, counts ? gradient : V{});
        }
      }
      for (int k = 0; k < W && v + k < count; ++k) {
        sum += left[k] * right[k];
        sum_before += before[k];
      }
    }
    return sum + sum_before;
  }

  const Layout& layout_;
  Lstm lstm_;
  Mlp mlp_;
};

}  // namespace
