// Windows, forecasts and losses of a group of 16 samples.

#pragma once

#include "lstm.h"
#include "mlp.h"

namespace {

// What windows are read from; each is named by its first row.
extern "C" struct PlflWindows {
  const float* features;  // [rows][features], the load first
  const float* context;   // [rows][context], of the window whose last row this is
  const float* targets;   // [rows][horizons], likewise
  std::int32_t horizons;  // targets of a window
  std::int32_t relative;  // whether the last load is subtracted from those of a window
};

// Of errors, output by output, but for the last, whose outputs are the quantiles of each target.
enum LossKind { kSquared = 0, kAbsolute = 1, kHuber = 2, kPinball = 3 };

struct Loss {
  int kind;
  const float* levels;  // of the quantiles, ascending
  int count;            // of them; 1 for the other losses
};

// Where a group keeps what; all groups of a batch lie behind one another in one piece of memory.
struct GroupLayout {
  explicit GroupLayout(const Layout& layout, Rows rows = {})
      : lstm(layout, rows), mlp(layout, rows), window(rows.add(layout.mlp[0].panels())),
        predictions(rows.add(layout.outputs)), size(rows.size) {}

  const LstmMemory lstm;
  const MlpMemory mlp;
  const std::ptrdiff_t window;       // [input], one window as the MLP reads it
  const std::ptrdiff_t predictions;  // [output][sample]
  const std::ptrdiff_t size;
};

class Group {
 public:
  // `memory` is zero at first.
  Group(const Layout& layout, const GroupLayout& at, float* memory)
      : layout_(layout), window_(memory + at.window), predictions_(memory + at.predictions), lstm_(layout, at.lstm, memory),
        mlp_(layout, at.mlp, memory) {
    window_[layout.widths[0]] = 1.0f;
  }

  // Read the windows that start at `starts[0 : count]`, 1 ≤ count ≤ 16. Spare lanes repeat the last
  // window.
  void read(const PlflWindows& windows, const std::int64_t* starts, int count) {
    if (layout_.recurrent()) return gather_steps(windows, starts, count);
    gather_rows(windows, starts, count);
    mlp_.read_transposed();
  }

  // Drop the hidden units that `key` says for samples from number `first` on; null: none.
  void drop(const std::uint64_t* key, int first) { mlp_.drop(key, first); }

  // Predictions [output][sample] of these windows.
  const float* forward(const float* model) {
    if (layout_.recurrent()) lstm_.forward(model, mlp_.inputs());
    mlp_.forward(model);
    const float* outputs = mlp_.outputs();
    for (int i = 0; i < layout_.outputs * kLanes; ++i)
      predictions_[i] = layout_.absolute ? std::fabs(outputs[i]) : outputs[i];
    return predictions_;
  }

  // What a model makes of these windows as the inputs [input][sample] of layer `j` of its MLP.
  const float* features(const float* model, int j) {
    if (layout_.recurrent()) lstm_.forward(model, mlp_.inputs());
    mlp_.hide(model, j);
    return mlp_.inputs_of(j);
  }

  // The same for the model of the last `forward`.
  const float* features(int j) const { return mlp_.inputs_of(j); }

  // Sum of the losses of this group; without `targets` [sample][horizon] they are the windows' own.
  // `scale` is that of the gradient of the outputs, which is left behind, zero in spare lanes.
  float loss(const Loss& loss, const PlflWindows& windows, const std::int64_t* starts,
             const float* targets, int count, float scale) {
    switch (loss.kind) {
      case kSquared: return sum_losses<kSquared>(loss, windows, starts, targets, count, scale);
      case kAbsolute: return sum_losses<kAbsolute>(loss, windows, starts, targets, count, scale);
      case kHuber: return sum_losses<kHuber>(loss, windows, starts, targets, count, scale);
      default: return sum_losses<kPinball>(loss, windows, starts, targets, count, scale);
    }
  }

  // `added` is a further gradient of the inputs of layer j, or null.
  void mlp_backward(const float* model, int j, const float* added) {
    mlp_.backward(model, j, added);
  }
  void lstm_backward(const float* model) { lstm_.backward(model, mlp_.inputs_gradient()); }

  // Fetch the rows that `starts` will need, which lie far apart in tables larger than the cache.
  void prefetch(const PlflWindows& windows, const std::int64_t* starts, int count) const {
    for (int lane = 0; lane < count; ++lane) {
      const std::int64_t start = starts[lane], last = start + layout_.steps - 1;
      prefetch(windows.features + start * layout_.features, layout_.steps * layout_.features);
      prefetch(windows.context + last * layout_.context, layout_.context);
      prefetch(windows.targets + last * windows.horizons, windows.horizons);
    }
  }

 private:
  static void prefetch(const float* from, int count) {
    if (count == 0) return;
    for (int i = 0; i < count; i += kAlignment / sizeof(float)) __builtin_prefetch(from + i);
    __builtin_prefetch(from + count - 1);
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
    const int context = layout_.context, panels = layout_.mlp[0].panels();
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int64_t start = starts[std::min(lane, count - 1)];
      std::copy_n(windows.features + start * features, sequence, window_);
      const float zero = level(windows, start);
      for (int i = 0; i < sequence; i += features) window_[i] -= zero;
      std::copy_n(windows.context + (start + layout_.steps - 1) * context, context,
                  window_ + sequence);
      float* to = mlp_.inputs_transposed() + lane * kPanel;
      for (int p = 0; p < panels; ++p) std::copy_n(window_ + p * kPanel, kPanel, to + p * kBlock);
    }
  }

  template <int kind>
  float sum_losses(const Loss& loss, const PlflWindows& windows, const std::int64_t* starts,
                   const float* targets, int count, float scale) {
    const float* outputs = mlp_.outputs();
    float* gradient = mlp_.outputs_gradient();
    const int horizons = windows.horizons, quantiles = kind == kPinball ? loss.count : 1;
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int64_t last = lane < count ? starts[lane] + layout_.steps - 1 : 0;
      const float* own =
          targets ? targets + lane * horizons : windows.targets + last * horizons;
      int horizon = 0, quantile = -1;  // of an output; to divide its number by theirs is slow
      for (int o = 0; o < layout_.outputs; ++o) {
        const int i = o * kLanes + lane;
        if (++quantile == quantiles) {
          quantile = 0;
          ++horizon;
        }
        if (lane >= count) {
          gradient[i] = 0.0f;
          continue;
        }
        const float error = predictions_[i] - own[horizon];
        float sign = 1.0f;
        if (layout_.absolute) sign = float(outputs[i] > 0.0f) - float(outputs[i] < 0.0f);
        // Comparisons such that the slope of NaN is NaN.
        if (kind == kSquared) {
          gradient[i] = 2.0f * scale * error * sign;
          sum += error * error;
        } else if (kind == kAbsolute) {
          gradient[i] = scale * (error > 0.0f ? 1.0f : error < 0.0f ? -1.0f : error) * sign;
          sum += std::fabs(error);
        } else if (kind == kHuber) {
          const float size = std::fabs(error);
          gradient[i] = scale * (error > 1.0f ? 1.0f : error < -1.0f ? -1.0f : error) * sign;
          sum += size < 1.0f ? 0.5f * error * error : size - 0.5f;
        } else {
          const float level = loss.levels[quantile];
          const float slope = error >= 0.0f ? 1.0f - level : error < 0.0f ? -level : error;
          gradient[i] = scale * slope * sign;
          sum += slope * error;
        }
      }
    }
    return sum;
  }

  const Layout& layout_;
  float *window_, *predictions_;
  Lstm lstm_;
  Mlp mlp_;
};

}  // namespace
