// MOON's term in the loss: features near those of one model, far from those of another.

#pragma once

#include "group.h"

namespace {

// The term of a group of 16 samples, whose features h are the inputs of a layer of the MLP:
//
//   weight · log(1 + exp(gap)),  gap = (cos(h, far) − cos(h, near)) / T,
//
// and its gradient by h, weight · σ(gap) · ∂gap / ∂h.
class Contrast {
 public:
  Contrast(const Layout& layout, int layer, float weight, float temperature)
      : layer_(layer), weight_(weight), temperature_(temperature),
        size_(layout.widths[layer] * kLanes), near_(size_), far_(size_), gradient_(size_) {}

  // Keep the features of the models `near` and `far` for the windows that the group has read.
  void prepare(Group& group, const float* near, const float* far) {
    std::copy_n(group.features(near, layer_), size_, near_.get());
    std::copy_n(group.features(far, layer_), size_, far_.get());
  }

  // Sum of the term over the first `count` samples, times `scale`, for the features of the group's
  // last forward pass; leaves its gradient behind, zero in spare lanes.
  float term(const Group& group, int count, float scale) {
    const float* h = group.features(layer_);
    const float weight = weight_ * scale;
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; lane += W) {
      V hh{}, nn{}, ff{}, hn{}, hf{};
      for (int i = lane; i < size_; i += kLanes) {
        const V x = load(h + i), near = load(near_.get() + i), far = load(far_.get() + i);
        hh += x * x;
        nn += near * near;
        ff += far * far;
        hn += x * near;
        hf += x * far;
      }
      V by_near{}, by_far{}, by_h{};  // factors of the gradient
      for (int k = 0; k < W && lane + k < count; ++k) {
        const float own = norm(hh[k]), near = own * norm(nn[k]), far = own * norm(ff[k]);
        const float gap = hf[k] / far - hn[k] / near, scaled = gap / temperature_;
        const float e = std::exp(-std::fabs(scaled)), sigma = (scaled > 0 ? 1.0f : e) / (1 + e);
        sum += weight * (std::max(scaled, 0.0f) + std::log1p(e));
        const float slope = weight * sigma / temperature_;
        by_near[k] = -slope / near;
        by_far[k] = slope / far;
        by_h[k] = -slope * gap / (own * own);
      }
      for (int i = lane; i < size_; i += kLanes)
        store(gradient_.get() + i,
              by_near * load(near_.get() + i) + by_far * load(far_.get() + i) + by_h * load(h + i));
    }
    return sum;
  }

  // Gradient [feature][sample] of the last term.
  const float* gradient() const { return gradient_.get(); }

 private:
  static float norm(float square) { return std::max(std::sqrt(square), 1e-8f); }  // as in PyTorch

  const int layer_;
  const float weight_, temperature_;
  const int size_;
  Floats near_, far_, gradient_;
};

}  // namespace
