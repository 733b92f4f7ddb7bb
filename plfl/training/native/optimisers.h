// Optimisers: how a gradient changes a model.

#pragma once

#include "vectors.h"

namespace {

extern "C" struct PlflRule {
  std::int32_t kind;             // see `Kind`
  std::int32_t variant;          // Momentum: 1 = Nesterov; AdamAMS: see `Maximum`
  double lr, beta1, beta2, eps;  // Momentum keeps its momentum and dampening in beta1 and beta2
  double proximal;               // a of a·(y − y⁰), which acts on shared parameters
  double weight_decay;           // λ of AdamW
  double coupled_decay;          // λ of the others, where λ·y is added to the gradient
};

enum Kind { kSgd = 0, kMomentum = 1, kAdam = 2, kAdamAms = 3, kAdamW = 4 };
enum Maximum { kPaper = 0, kTorch = 1, kReddi = 2 };

// The factors of a step that depend on the number of earlier steps: the bias corrections of Adam,
// and the factor of the gradient in Momentum.
struct Correction {
  float step_size, vmax_scale, eps, take;
};

// One strength a of a·(y − y⁰), and the mask of the parameters that it acts on.
struct Pull {
  float strength;
  const std::uint16_t* where;
};

// Everything that moves a model: its optimiser at one step, and the terms of its row. Arrays have
// the layout of the model; null: there is no such term.
struct Optimiser {
  float *y, *m, *v, *vmax, *gradients;
  const float *anchor, *pull, *constant, *step_offset;
  const Pull* pulls;  // replaces `pull`, which has a strength for each parameter
  int pull_count;
  const std::uint16_t *shared, *frozen;
  float lr, keep1, take1, keep2, take2;
  float shrink;           // 1 − η λ of AdamW
  float coupled;          // λ of a decay that is part of the gradient
  Correction correction;  // of shared parameters, or of all
  bool mixed;             // whether the other parameters have another correction:
  Correction personal;
};

// Whether the lanes of y[k : k + W] are in a mask.
inline VI lanes_of(const std::uint16_t* mask, std::ptrdiff_t k) {
  return lanes_of(mask[std::size_t(k) / kPanel] >> (std::size_t(k) % kPanel));
}

// The terms of a row besides the gradient of the loss. They are template parameters of `apply`,
// because testing for every possible term at each vector would take as long as an optimiser.
enum Terms { kPulled = 1, kConstant = 2, kOther = 4, kAllTerms = 8 };

// Steps of y[at : at + count] along `gradient`.
template <int kind, bool nesterov, int terms>
void apply(const Optimiser& optimiser, std::ptrdiff_t at, const float* gradient, int count) {
  constexpr bool other = terms & kOther;
  const Optimiser o = optimiser;  // a copy that no store below can change, which is faster
  for (int i = 0; i < count; i += W) {
    const std::ptrdiff_t k = at + i;
    const V before = load(o.y + k);
    V y = before, g = load(gradient + i);
    const bool mixed = other && o.mixed;
    const VI shared = mixed ? lanes_of(o.shared, k) : VI{};
    if (other && o.gradients) store(o.gradients + k, load(o.gradients + k) + g);
    if (terms & kPulled) {
      const V way = y - load(o.anchor + k);
      for (int p = 0; p < o.pull_count; ++p)
        g += (V)((VI)(o.pulls[p].strength * way) & lanes_of(o.pulls[p].where, k));
      if (other && o.pull) g += load(o.pull + k) * way;
    }
    if (terms & kConstant) g += load(o.constant + k);
    if (other && o.coupled != 0.0f) g += o.coupled * before;
    if (kind == kSgd) {
      y -= o.lr * g;
    } else if (kind == kMomentum) {
      V take = splat(o.correction.take);
      if (mixed) take = shared ? take : splat(o.personal.take);
      const V m = o.keep1 * load(o.m + k) + take * g;
      store(o.m + k, m);
      y -= o.lr * (nesterov ? g + o.keep1 * m : m);
    } else {
      const V m = o.keep1 * load(o.m + k) + o.take1 * g;
      V v = o.keep2 * load(o.v + k) + o.take2 * (g * g);
      store(o.m + k, m);
      store(o.v + k, v);
      V step_size = splat(o.correction.step_size), eps = splat(o.correction.eps);
      V vmax_scale = splat(o.correction.vmax_scale);
      if (mixed) {
        step_size = shared ? step_size : splat(o.personal.step_size);
        eps = shared ? eps : splat(o.personal.eps);
        vmax_scale = shared ? vmax_scale : splat(o.personal.vmax_scale);
      }
      if (kind == kAdamAms) {
        v = larger(load(o.vmax + k), v * vmax_scale);
        store(o.vmax + k, v);
      }
      if (kind == kAdamW) y *= o.shrink;
      // The root of numbers below the smallest normal one is negligible beside ε.
      y -= step_size * (m * reciprocal(square_root(larger(splat(1.17549435e-38f), v)) + eps));
    }
    if (other && o.step_offset) y += load(o.step_offset + k);
    if (other && o.frozen) y = lanes_of(o.frozen, k) ? before : y;
    store(o.y + k, y);
  }
}

typedef void (*Apply)(const Optimiser&, std::ptrdiff_t, const float*, int);

template <int kind, bool nesterov, int... terms>
Apply apply_of(int which, std::integer_sequence<int, terms...>) {
  static constexpr Apply table[] = {apply<kind, nesterov, terms>...};
  return table[which];
}

Apply apply_of(const PlflRule& rule, int which) {
  constexpr auto all = std::make_integer_sequence<int, kAllTerms>{};
  switch (rule.kind) {
    case kSgd: return apply_of<kSgd, false>(which, all);
    case kMomentum:
      return rule.variant ? apply_of<kMomentum, true>(which, all)
                          : apply_of<kMomentum, false>(which, all);
    case kAdam: return apply_of<kAdam, false>(which, all);
    case kAdamW: return apply_of<kAdamW, false>(which, all);
    default: return apply_of<kAdamAms, false>(which, all);
  }
}

}  // namespace
