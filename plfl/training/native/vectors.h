// Vectors of floats, and functions of their elements. What differs by instruction set is here.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

namespace {

// W: floats in a vector. The others: sizes of the tiles that a product, a transposed product and a
// gradient keep in registers.
#if defined(__AVX512F__)
constexpr int W = 16, kRowTile = 25, kColumnTile = 16, kGradientPanels = 3, kGradientRows = 8;
#elif defined(__AVX2__)
constexpr int W = 8, kRowTile = 6, kColumnTile = 6, kGradientPanels = 1, kGradientRows = 6;
#elif defined(__aarch64__)
constexpr int W = 4, kRowTile = 6, kColumnTile = 6, kGradientPanels = 1, kGradientRows = 6;
#else
constexpr int W = 4, kRowTile = 3, kColumnTile = 3, kGradientPanels = 1, kGradientRows = 3;
#endif

constexpr int kLanes = 16;  // samples of a group
constexpr int kVectors = kLanes / W;
constexpr int kPanel = 16;  // columns of a panel
constexpr int kBlock = kLanes * kPanel;
constexpr std::size_t kAlignment = 64;

typedef float V __attribute__((vector_size(4 * W), may_alias));
typedef std::int32_t VI __attribute__((vector_size(4 * W), may_alias));

inline V load(const float* p) { return *reinterpret_cast<const V*>(p); }
inline void store(float* p, V x) { *reinterpret_cast<V*>(p) = x; }
inline V splat(float x) { return x - V{}; }

// The smaller or larger of two; NaN in `x` stays NaN.
#if defined(__AVX512F__)
inline V smaller(V y, V x) { return (V)_mm512_maskz_min_ps(0xffff, (__m512)y, (__m512)x); }
inline V larger(V y, V x) { return (V)_mm512_maskz_max_ps(0xffff, (__m512)y, (__m512)x); }
#elif defined(__AVX2__)
inline V smaller(V y, V x) { return (V)_mm256_min_ps((__m256)y, (__m256)x); }
inline V larger(V y, V x) { return (V)_mm256_max_ps((__m256)y, (__m256)x); }
#else
inline V smaller(V y, V x) { return y < x ? y : x; }
inline V larger(V y, V x) { return y > x ? y : x; }
#endif
inline V clamp(V x, float low, float high) { return smaller(splat(high), larger(splat(low), x)); }

inline V magnitude(V x) { return (V)((VI)x & 0x7fffffff); }

// Lanes whose bit is set.
inline VI lanes_of(unsigned bits) {
  VI lane;
  for (int i = 0; i < W; ++i) lane[i] = 1 << i;
  return ((VI{} + std::int32_t(bits)) & lane) != 0;
}

// 1 / x. The approximation and its Newton step are as exact as float32 allows, at a third of the
// cost of a division; x must be finite.
inline V reciprocal(V x) {
#if defined(__AVX512F__)
  const V r = (V)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
  return r + r * (1.0f - x * r);
#else
  return 1.0f / x;
#endif
}

// √x for x ≥ the smallest normal number.
inline V square_root(V x) {
#if defined(__AVX512F__)
  const V r = (V)_mm512_maskz_rsqrt14_ps(0xffff, (__m512)x);
  const V root = x * r;
  return root + root * (0.5f - (0.5f * r) * root);
#elif defined(__AVX2__)
  return (V)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (V)_mm_sqrt_ps((__m128)x);
#else
  V root;
  for (int i = 0; i < W; ++i) root[i] = __builtin_sqrtf(x[i]);
  return root;
#endif
}

// eˣ for |x| ≤ 87 as scale + scale·fraction, where fraction = eʳ − 1 with |r| ≤ ln 2 / 2 (Cephes'
// expf).
struct Exponential {
  V scale, fraction;
};

// The same for N vectors side by side, because each operation on one vector waits for the last.
template <int N>
inline void exponentials(const V (&x)[N], Exponential (&e)[N]) {
  const float shift = 12582912.0f;  // 1.5·2²³: adding it rounds to an integer in the low bits
  V shifted[N], r[N], q[N];
  UNROLL for (int i = 0; i < N; ++i) shifted[i] = x[i] * 1.44269504088896341f + shift;
  UNROLL for (int i = 0; i < N; ++i) {
    const V n = shifted[i] - shift;
    r[i] = x[i] - n * 0.693359375f + n * 2.12194440e-4f;
  }
  UNROLL for (int i = 0; i < N; ++i) q[i] = 1.9875691500e-4f * r[i] + 1.3981999507e-3f;
  constexpr float terms[] = {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                             5.0000001201e-1f};
  UNROLL for (const float term : terms) UNROLL for (int i = 0; i < N; ++i) q[i] =
      q[i] * r[i] + term;
  UNROLL for (int i = 0; i < N; ++i) {
    const VI exponent = (VI)shifted[i] - (VI)splat(shift) + 127;
    e[i] = {(V)(exponent << 23), r[i] + r[i] * r[i] * q[i]};
  }
}

// The sigmoid of x from the exponential of this,
inline V for_sigmoid(V x) { return clamp(-x, -87.0f, 87.0f); }
inline V sigmoid(Exponential e) { return reciprocal(1.0f + (e.scale + e.scale * e.fraction)); }

// and its hyperbolic tangent, by e²ˣ − 1 because the sigmoid would lose precision for small values.
inline V for_tangent(V x) { return clamp(2.0f * x, -20.0f, 20.0f); }
inline V hyperbolic_tangent(Exponential e) {
  const V minus_one = e.scale * e.fraction + (e.scale - 1.0f);
  return minus_one * reciprocal(minus_one + 2.0f);
}

// Call body(size, first) for `count` vectors: four at once, then the rest. `first` counts floats.
template <class Body>
inline void by_fours(int count, Body body) {
  int i = 0;
  for (; i + 4 <= count; i += 4) body(std::integral_constant<int, 4>{}, i * W);
  for (; i < count; ++i) body(std::integral_constant<int, 1>{}, i * W);
}

#if defined(__clang__) || __GNUC__ >= 12
template <int half, int... I>
inline V interleave(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (half * W / 2 + I / 2 + (I % 2) * W)...);
}
#else
template <int half, int... I>
inline V interleave(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shuffle(a, b, VI{(half * W / 2 + I / 2 + (I % 2) * W)...});
}
#endif

// Transpose 16×16 blocks: shuffling a deck of 256 cards perfectly four times does it.
inline void transpose(const float* from, float* to, int blocks) {
  constexpr int vectors = kBlock / W;
  constexpr auto lanes = std::make_integer_sequence<int, W>{};
  for (int block = 0; block < blocks; ++block, from += kBlock, to += kBlock) {
    V deck[vectors], shuffled[vectors];
    UNROLL for (int i = 0; i < vectors; ++i) deck[i] = load(from + i * W);
    UNROLL for (int pass = 0; pass < 4; ++pass) {
      UNROLL for (int i = 0; i < vectors / 2; ++i) {
        shuffled[2 * i] = interleave<0>(deck[i], deck[i + vectors / 2], lanes);
        shuffled[2 * i + 1] = interleave<1>(deck[i], deck[i + vectors / 2], lanes);
      }
      UNROLL for (int i = 0; i < vectors; ++i) deck[i] = shuffled[i];
    }
    UNROLL for (int i = 0; i < vectors; ++i) store(to + i * W, deck[i]);
  }
}

// Zeroed, aligned floats.
class Floats {
 public:
  explicit Floats(std::ptrdiff_t count = 0) {
    if (count == 0) return;
    const std::size_t bytes = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }
  float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
};

}  // namespace
