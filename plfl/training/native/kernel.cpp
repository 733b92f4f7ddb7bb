// Local training of many small forecasters (an LSTM, then an MLP), each by itself, on the CPU.
//
// A model is a row of `theta`. Its K local steps run in one go while its weights and moments stay
// in the L2 cache, which is where the speed comes from: they are read once per call, not per step.
//
// Three choices shape everything below.
//
// 1. The 16 samples of a batch are the lanes of a vector: an activation is [feature][16], and a
//    product with a weight is a fused multiply-add with that weight broadcast. Larger batches are
//    several groups of 16, smaller ones leave lanes without weight.
// 2. A matrix is stored in panels of 16 columns, [panel][row][16]. Neighbouring rows are then a
//    constant 64 bytes apart, so a tile of 25 rows needs one pointer, and products with the matrix
//    and its transpose both read memory nearly in order. Biases and slopes are further columns
//    (or, in the LSTM, rows) of the matrix whose outputs they belong to, so that a model is nothing
//    but matrices and the optimiser has a single form to deal with.
// 3. The gradient of a matrix is formed in small tiles that go to the optimiser at once; it never
//    exists as a whole.
//
// The file is compiled once per instruction set (see compile.py); only the width W of a vector and
// the size of tiles differ. Nothing depends on addresses, threads or other rows, so that a row's
// result is the same to the bit however it was scheduled. Another build may round otherwise.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

namespace {

// ---------------------------------------------------------------------------------------------
// Vectors

// W: floats in a vector. The others: what is held in registers of a product, a transposed product
// and a gradient.
#if defined(__AVX512F__)
constexpr int W = 16, kRowTile = 25, kColumnTile = 16, kGradientPanels = 3, kGradientRows = 8;
#elif defined(__AVX2__)
constexpr int W = 8, kRowTile = 6, kColumnTile = 6, kGradientPanels = 1, kGradientRows = 6;
#elif defined(__aarch64__)
constexpr int W = 4, kRowTile = 6, kColumnTile = 6, kGradientPanels = 1, kGradientRows = 6;
#else
constexpr int W = 4, kRowTile = 3, kColumnTile = 3, kGradientPanels = 1, kGradientRows = 3;
#endif

constexpr int kLanes = 16;      // samples of a group
constexpr int kVectors = kLanes / W;
constexpr int kPanel = 16;      // columns of a panel
constexpr int kBlock = kLanes * kPanel;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kStrengths = 4;  // most strengths of a pull that are kept as masks

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

// 1 / x. The approximation and its Newton step are as exact as float32 allows, at a third of the
// price of a division; x must be finite.
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

// eˣ for |x| ≤ 87 as scale + scale·fraction, where fraction = eʳ − 1 with |r| ≤ ln 2 / 2 (Cephes' expf).
struct Exponential {
  V scale, fraction;
};

inline Exponential exponential(V x) {
  const float shift = 12582912.0f;  // 1.5·2²³: adding it rounds to an integer in the low bits
  const V shifted = x * 1.44269504088896341f + shift;
  const V n = shifted - shift;
  const V r = x - n * 0.693359375f + n * 2.12194440e-4f;
  V q = 1.9875691500e-4f * r + 1.3981999507e-3f;
  q = q * r + 8.3334519073e-3f;
  q = q * r + 4.1665795894e-2f;
  q = q * r + 1.6666665459e-1f;
  q = q * r + 5.0000001201e-1f;
  const VI exponent = (VI)shifted - (VI)splat(shift) + 127;
  return {(V)(exponent << 23), r + r * r * q};
}

inline V sigmoid(V x) {
  const Exponential e = exponential(clamp(-x, -87.0f, 87.0f));
  return reciprocal(1.0f + (e.scale + e.scale * e.fraction));
}

// By e²ˣ − 1 rather than through the sigmoid, which would lose the small values.
inline V hyperbolic_tangent(V x) {
  const Exponential e = exponential(clamp(2.0f * x, -20.0f, 20.0f));
  const V minus_one = e.scale * e.fraction + (e.scale - 1.0f);
  return minus_one * reciprocal(minus_one + 2.0f);
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

// ---------------------------------------------------------------------------------------------
// Products with a matrix

constexpr int panels_of(int columns) { return (columns + kPanel - 1) / kPanel; }

struct Matrix {
  int rows, columns;
  std::ptrdiff_t start;  // of its first panel in a model

  int panels() const { return panels_of(columns); }
  std::ptrdiff_t size() const { return std::ptrdiff_t(panels()) * rows * kPanel; }
  std::ptrdiff_t panel(int p) const { return start + std::ptrdiff_t(p) * rows * kPanel; }
  std::ptrdiff_t at(int row, int column) const {
    return panel(column / kPanel) + row * kPanel + column % kPanel;
  }
};

// y[r] = Σ_c M[r][c]·x[c] for N rows; `panel_step` leads from a panel to the next.
template <int N>
void product_tile(const float* matrix, std::ptrdiff_t panel_step, int columns, const float* x,
                  float* y) {
  V sum[N][kVectors] = {};
  for (int c = 0; c < columns; c += kPanel, matrix += panel_step) {
    const int width = std::min(kPanel, columns - c);
    for (int j = 0; j < width; ++j, x += kLanes) {
      UNROLL for (int r = 0; r < N; ++r) {
        const float weight = matrix[r * kPanel + j];
        UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] += weight * load(x + v * W);
      }
    }
  }
  UNROLL for (int r = 0; r < N; ++r) {
    UNROLL for (int v = 0; v < kVectors; ++v) store(y + r * kLanes + v * W, sum[r][v]);
  }
}

// y[c] = Σ_r M[r][c]·x[r] for N columns of one panel.
template <int N>
void transposed_tile(const float* panel, int rows, const float* x, float* y) {
  V sum[N][kVectors] = {};
  for (int r = 0; r < rows; ++r, panel += kPanel, x += kLanes) {
    UNROLL for (int c = 0; c < N; ++c) {
      UNROLL for (int v = 0; v < kVectors; ++v) sum[c][v] += panel[c] * load(x + v * W);
    }
  }
  UNROLL for (int c = 0; c < N; ++c) {
    UNROLL for (int v = 0; v < kVectors; ++v) store(y + c * kLanes + v * W, sum[c][v]);
  }
}

// Samples of a gradient: `groups` × `steps` blocks of 16, some distance apart.
struct Samples {
  int groups, steps;
  std::ptrdiff_t group_step, left_step, right_step;
};

// out[p][r][j] = Σ_samples left[r][sample]·right[p][sample][j] for R rows and P panels.
template <int P, int R>
void gradient_tile(const Samples& samples, const float* left, const float* right, float* out) {
  constexpr int vectors = P * kPanel / W;
  constexpr int per_panel = kPanel / W;
  V sum[vectors][R] = {};
  for (int group = 0; group < samples.groups; ++group) {
    for (int step = 0; step < samples.steps; ++step) {
      const float* a = left + group * samples.group_step + step * samples.left_step;
      const float* b = right + group * samples.group_step + step * samples.right_step;
      for (int lane = 0; lane < kLanes; ++lane) {
        V row[vectors];
        UNROLL for (int v = 0; v < vectors; ++v) {
          row[v] = load(b + (v / per_panel) * kBlock + lane * kPanel + (v % per_panel) * W);
        }
        UNROLL for (int r = 0; r < R; ++r) {
          const float weight = a[r * kLanes + lane];
          UNROLL for (int v = 0; v < vectors; ++v) sum[v][r] += weight * row[v];
        }
      }
    }
  }
  UNROLL for (int v = 0; v < vectors; ++v) {
    UNROLL for (int r = 0; r < R; ++r) {
      store(out + ((v / per_panel) * R + r) * kPanel + (v % per_panel) * W, sum[v][r]);
    }
  }
}

// Tables of the tiles by their size, which is known only at run time.
typedef void (*ProductTile)(const float*, std::ptrdiff_t, int, const float*, float*);
typedef void (*TransposedTile)(const float*, int, const float*, float*);
typedef void (*GradientTile)(const Samples&, const float*, const float*, float*);

template <int... I>
ProductTile product_of(int rows, std::integer_sequence<int, I...>) {
  static constexpr ProductTile table[] = {product_tile<I + 1>...};
  return table[rows - 1];
}

template <int... I>
TransposedTile transposed_of(int columns, std::integer_sequence<int, I...>) {
  static constexpr TransposedTile table[] = {transposed_tile<I + 1>...};
  return table[columns - 1];
}

template <int... I>
GradientTile gradient_of(int panels, int rows, std::integer_sequence<int, I...>) {
  static constexpr GradientTile table[] = {
      gradient_tile<I / kGradientRows + 1, I % kGradientRows + 1>...};
  return table[(panels - 1) * kGradientRows + rows - 1];
}

// Call body(begin, size) for the fewest pieces of [0, count) of at most `limit`, all about equal.
template <class Body>
void in_pieces(int count, int limit, Body body) {
  const int pieces = (count + limit - 1) / limit;
  for (int i = 0, begin = 0; i < pieces; ++i) {
    const int size = (count - begin) / (pieces - i);
    body(begin, size);
    begin += size;
  }
}

// y = M[first : first + rows]·x, of which the first `columns` columns count.
void product(const float* model, const Matrix& matrix, int first, int rows, int columns,
             const float* x, float* y) {
  in_pieces(rows, kRowTile, [&](int begin, int size) {
    product_of(size, std::make_integer_sequence<int, kRowTile>{})(
        model + matrix.at(first + begin, 0), std::ptrdiff_t(matrix.rows) * kPanel, columns, x,
        y + begin * kLanes);
  });
}

// y = Mᵀ·x for the first `columns` columns, of which the first `rows` rows count.
void transposed_product(const float* model, const Matrix& matrix, int rows, int columns,
                        const float* x, float* y) {
  for (int c = 0; c < columns; c += kPanel) {
    in_pieces(std::min(kPanel, columns - c), kColumnTile, [&](int begin, int size) {
      transposed_of(size, std::make_integer_sequence<int, kColumnTile>{})(
          model + matrix.at(0, c + begin), rows, x, y + (c + begin) * kLanes);
    });
  }
}

// ---------------------------------------------------------------------------------------------
// The form of a model

extern "C" struct PlflNetwork {
  std::int32_t features, look_back, look_ahead, hidden;
  std::int32_t layers;          // hidden layers of the MLP
  const std::int32_t* widths;   // of the hidden layers
  std::int32_t absolute;        // whether the output is |·|
};

typedef std::vector<std::uint16_t> Mask;  // a bit per parameter, laid out like the model

// Matrices of a model and the place of every parameter in them.
//
// Rows of the LSTM's matrix are its inputs (features, the two biases' ones, hidden state) and its
// columns are gates. A hidden state of zeros then saves the last rows at the first time step.
// Rows of an MLP's matrix are its outputs; columns are inputs, the bias and the PReLU's slope.
struct Layout {
  explicit Layout(const PlflNetwork& network)
      : features(network.features), steps(network.look_back), hidden(network.hidden),
        target(network.look_back - 1 + network.look_ahead), absolute(network.absolute) {
    lstm = add(features + 2 + hidden, 4 * hidden);
    for (int g = 0; g < gates(); ++g)
      for (int f = 0; f < features; ++f) place.push_back(lstm.at(f, g));
    for (int g = 0; g < gates(); ++g)
      for (int h = 0; h < hidden; ++h) place.push_back(lstm.at(features + 2 + h, g));
    for (int bias = 0; bias < 2; ++bias)
      for (int g = 0; g < gates(); ++g) place.push_back(lstm.at(features + bias, g));

    int inputs = steps * hidden;
    for (int layer = 0; layer <= network.layers; ++layer) {
      const bool last = layer == network.layers;
      const int outputs = last ? 1 : network.widths[layer];
      const Matrix matrix = add(outputs, inputs + (last ? 1 : 2));
      for (int o = 0; o < outputs; ++o)
        for (int i = 0; i < inputs; ++i) place.push_back(matrix.at(o, i));
      for (int extra = inputs; extra < matrix.columns; ++extra)
        for (int o = 0; o < outputs; ++o) place.push_back(matrix.at(o, extra));
      mlp.push_back(matrix);
      widths.push_back(inputs);
      inputs = outputs;
    }
  }

  // Lay row `row` of `rows` [·][parameters] out as a model; zeros where there are no rows.
  void read(const float* rows, std::int64_t row, float* model) const {
    std::memset(model, 0, size * sizeof(float));
    if (!rows) return;
    const float* from = rows + row * std::int64_t(place.size());
    for (std::size_t p = 0; p < place.size(); ++p) model[place[p]] = from[p];
  }

  // A mask of a model, laid out like one; empty where there is none.
  Mask mask(const std::uint8_t* parameters) const {
    Mask bits(parameters ? size / kPanel : 0, 0);
    for (std::size_t p = 0; p < place.size() && parameters; ++p)
      if (parameters[p]) bits[place[p] / kPanel] |= std::uint16_t(1u << (place[p] % kPanel));
    return bits;
  }

  void write(const float* model, std::int64_t row, float* rows) const {
    float* to = rows + row * std::int64_t(place.size());
    for (std::size_t p = 0; p < place.size(); ++p) to[p] = model[place[p]];
  }

  int gates() const { return 4 * hidden; }
  int lstm_inputs() const { return lstm.rows; }
  int hidden_layers() const { return int(mlp.size()) - 1; }

  int features, steps, hidden, target;
  bool absolute;
  Matrix lstm;
  std::vector<Matrix> mlp;
  std::vector<int> widths;            // inputs of each of `mlp`
  std::vector<std::ptrdiff_t> place;  // of each parameter of a row of theta
  std::ptrdiff_t size = 0;            // floats of a model, padding included

 private:
  Matrix add(int rows, int columns) {
    const Matrix matrix{rows, columns, size};
    size += matrix.size();
    return matrix;
  }
};

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

// ---------------------------------------------------------------------------------------------
// Activations of a group of 16 samples, forward and backward

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

// ---------------------------------------------------------------------------------------------
// Optimisers

extern "C" struct PlflRule {
  std::int32_t kind;     // see `Kind`
  std::int32_t variant;  // Momentum: 1 = Nesterov; AdamAMS: see `Maximum`
  double lr, beta1, beta2, eps;  // Momentum keeps its momentum and dampening in beta1 and beta2
  double proximal;       // a of a·(y − y⁰), which acts on shared parameters
};

enum Kind { kSgd = 0, kMomentum = 1, kAdam = 2, kAdamAms = 3 };
enum Maximum { kPaper = 0, kTorch = 1, kReddi = 2 };

// The part of a step that depends on how many there were before: the bias corrections of Adam, and
// what Momentum takes of a gradient.
struct Correction {
  float step_size, vmax_scale, eps, take;
};

// One strength a of a·(y − y⁰), and the mask of the parameters that it acts on.
struct Pull {
  float strength;
  const std::uint16_t* where;
};

// What moves a model: its optimiser at one step, and the terms of its row. Arrays are laid out like
// the model; null where there is no such term.
struct Optimiser {
  float *y, *m, *v, *vmax, *gradients;
  float *momentum, *square, *previous;  // of the recursion
  const float *anchor, *pull, *constant, *step_offset, *scale;
  const Pull* pulls;            // instead of `pull`, which has a strength for each parameter
  int pull_count;
  const std::uint16_t *shared, *frozen;
  float lr, keep1, take1, keep2, take2;
  Correction correction;        // of shared parameters, or of all
  bool mixed;                   // whether the others have one of their own:
  Correction personal;
  float recall, decay, renew;   // 1 − a, β, 1 − β of the recursion
  bool moves;                   // whether its step is not the last
};

// Lanes whose bit is set.
inline VI lanes_of(unsigned bits) {
  VI lane;
  for (int i = 0; i < W; ++i) lane[i] = 1 << i;
  return ((VI{} + std::int32_t(bits)) & lane) != 0;
}

// Whether the lanes of y[k : k + W] are in a mask.
inline VI lanes_of(const std::uint16_t* mask, std::ptrdiff_t k) {
  return lanes_of(mask[std::size_t(k) / kPanel] >> (std::size_t(k) % kPanel));
}

// Terms that a row has beyond the gradient of the loss; `apply` looks for no others, since a look
// at each vector for all that there might be takes as long as an optimiser.
enum Terms { kPulled = 1, kConstant = 2, kOther = 4, kRecursion = 8, kAllTerms = 16 };

// Steps of y[at : at + count] along `gradient`.
template <int kind, bool nesterov, int terms>
void apply(const Optimiser& optimiser, std::ptrdiff_t at, const float* gradient, int count) {
  constexpr bool other = terms & kOther;
  const Optimiser o = optimiser;  // a copy, as far as the compiler knows no store below changes it
  for (int i = 0; i < count; i += W) {
    const std::ptrdiff_t k = at + i;
    const V before = load(o.y + k);
    V y = before, g = load(gradient + i);
    const bool mixed = other && o.mixed;
    const VI shared = mixed || (terms & kRecursion) ? lanes_of(o.shared, k) : VI{};
    if (other && o.gradients) store(o.gradients + k, load(o.gradients + k) + g);
    V ahead = before;
    if (terms & kRecursion) {
      const V m = load(o.momentum + k), v = load(o.square + k), newer = m + g;
      store(o.momentum + k, shared ? newer : m);
      store(o.square + k, shared ? o.decay * v + o.renew * (g * g) : v);
      store(o.previous + k, before);
      if (o.moves) ahead -= load(o.scale + k) * newer;
    }
    if (terms & kPulled) {
      const V way = y - load(o.anchor + k);
      for (int p = 0; p < o.pull_count; ++p)
        g += (V)((VI)(o.pulls[p].strength * way) & lanes_of(o.pulls[p].where, k));
      if (other && o.pull) g += load(o.pull + k) * way;
    }
    if (terms & kConstant) g += load(o.constant + k);
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
      // The root of anything below the smallest normal number is nothing beside ε.
      y -= step_size * (m * reciprocal(square_root(larger(splat(1.17549435e-38f), v)) + eps));
    }
    if (terms & kRecursion) y = shared ? ahead : y;
    if (other && o.step_offset) y += load(o.step_offset + k);
    if (other && o.frozen) y = lanes_of(o.frozen, k) ? before : y;
    store(o.y + k, y);
  }
}

// What a gradient at the point before does to the recursion's momentum.
void recall(const Optimiser& o, std::ptrdiff_t at, const float* gradient, int count) {
  for (int i = 0; i < count; i += W) {
    const V m = load(o.momentum + at + i);
    const V kept = o.recall * (m - load(gradient + i));
    store(o.momentum + at + i, lanes_of(o.shared, at + i) ? kept : m);
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
    default: return apply_of<kAdamAms, false>(which, all);
  }
}

// ---------------------------------------------------------------------------------------------
// Training a row

extern "C" struct PlflTraining {
  std::int64_t rows, steps, batch, threads;
  float* theta;                  // [rows][parameters], trained in place
  const float* table;            // [·][features]
  const std::int64_t* starts;    // [rows][steps][batch]
  const PlflRule* rules;         // [rows]
  const std::int64_t* taken;     // [rows][2] steps behind the state: shared part, the rest
  const std::uint8_t* shared;    // [parameters]
  float *m, *v, *vmax;           // [rows][parameters], state in and out; null: zero at first
  double* losses;                // [rows], means over the steps
  double loss_scale, a, beta;    // the latter two: of the recursion
  // Null where there is no such term:
  const float* pull;             // [parameters], a of a·(y − y⁰) in every gradient
  const float* constant;         // [rows][parameters], added to every gradient
  const float* step_offset;     // [rows][parameters], added after every step
  const float* targets;          // [rows][steps][batch], instead of the windows' own
  const std::int64_t* row_steps; // [rows] steps to take, at most `steps`; without: `steps`
  float* gradients;              // [rows][parameters], to which bare gradients are added
  const std::uint8_t* frozen;    // [parameters] that stay as they are
  float *momentum, *square;      // [rows][parameters], a recursion's m and v in and out
  const float* scale;            // [rows][parameters], its s
};

class Trainer {
 public:
  Trainer(const Layout& layout, const PlflTraining& job)
      : layout_(layout), job_(job), at_(layout),
        memory_(at_.size * ((job.batch + kLanes - 1) / kLanes)),
        y_(layout.size), m_(layout.size), v_(layout.size), vmax_(layout.size),
        anchor_(layout.size), pull_(job.pull ? layout.size : 0),
        constant_(job.constant ? layout.size : 0),
        step_offset_(job.step_offset ? layout.size : 0),
        gradients_(job.gradients ? layout.size : 0),
        momentum_(job.momentum ? layout.size : 0), square_(job.momentum ? layout.size : 0),
        previous_(job.momentum ? layout.size : 0), scale_(job.momentum ? layout.size : 0),
        shared_(layout.mask(job.shared)), frozen_(layout.mask(job.frozen)) {
    for (std::int64_t first = 0; first < job.batch; first += kLanes)
      groups_.emplace_back(layout, at_, memory_.get() + at_.size * std::int64_t(groups_.size()));
    if (job.pull) read_pull();
  }

  void train(std::int64_t row) {
    const PlflRule& rule = job_.rules[row];
    layout_.read(job_.theta, row, y_.get());
    layout_.read(job_.m, row, m_.get());
    layout_.read(job_.v, row, v_.get());
    layout_.read(job_.vmax, row, vmax_.get());
    if (job_.constant) layout_.read(job_.constant, row, constant_.get());
    if (job_.step_offset) layout_.read(job_.step_offset, row, step_offset_.get());
    if (job_.gradients) layout_.read(job_.gradients, row, gradients_.get());
    if (job_.momentum) read_recursion(row);
    // The optimiser's own pull acts on shared parameters.
    pulls_[0] = {float(rule.proximal), shared_.data()};
    const bool pulled = rule.proximal != 0 || job_.pull;
    if (pulled) std::memcpy(anchor_.get(), y_.get(), layout_.size * sizeof(float));
    const bool constant = job_.constant && !(pulled && move_anchor(rule.proximal != 0));
    const std::int64_t* taken = job_.taken + 2 * row;
    const bool other = dense_ || job_.step_offset || job_.gradients || job_.frozen ||
                       taken[0] != taken[1];
    apply_ = apply_of(rule, pulled * kPulled | constant * kConstant |
                                other * kOther | (job_.momentum != nullptr) * kRecursion);
    const std::int64_t steps = job_.row_steps ? job_.row_steps[row] : job_.steps;
    double loss = 0.0;
    for (std::int64_t k = 0; k < steps; ++k) {
      const bool last = k + 1 == steps;
      optimiser_ = at_step(rule, taken[0] + k + 1, taken[1] + k + 1, last);
      if (job_.momentum) pass(previous_.get(), recall, row, k, true);
      loss += pass(y_.get(), apply_, row, k, last);
    }
    job_.losses[row] = loss / double(steps);
    layout_.write(y_.get(), row, job_.theta);
    if (job_.m) layout_.write(m_.get(), row, job_.m);
    if (job_.v) layout_.write(v_.get(), row, job_.v);
    if (job_.vmax) layout_.write(vmax_.get(), row, job_.vmax);
    if (job_.gradients) layout_.write(gradients_.get(), row, job_.gradients);
    if (!job_.momentum) return;
    layout_.write(momentum_.get(), row, job_.momentum);
    layout_.write(square_.get(), row, job_.square);
  }

 private:
  // A pull of few different strengths is kept as masks, which take a 32nd of the memory: another
  // array would not fit into the cache any more.
  void read_pull() {
    const std::size_t parameters = layout_.place.size();
    std::vector<float> strengths;
    for (std::size_t p = 0; p < parameters && strengths.size() <= kStrengths; ++p)
      if (job_.pull[p] != 0 &&
          std::find(strengths.begin(), strengths.end(), job_.pull[p]) == strengths.end())
        strengths.push_back(job_.pull[p]);
    dense_ = strengths.size() > kStrengths;
    if (dense_) return layout_.read(job_.pull, 0, pull_.get());
    std::vector<std::uint8_t> where(parameters);
    for (const float strength : strengths) {
      for (std::size_t p = 0; p < parameters; ++p) where[p] = job_.pull[p] == strength;
      masks_.push_back(layout_.mask(where.data()));
      pulls_.push_back({strength, masks_.back().data()});
    }
  }

  // Make a·(y − anchor) + c a pull to anchor − c / a, which spares the cache an array; false for a
  // row with a constant where nothing pulls, of which both are left as they are.
  bool move_anchor(bool proximal) {
    for (std::ptrdiff_t k = 0; k < layout_.size; k += W) {
      V strength{};
      for (std::size_t p = !proximal; p < pulls_.size(); ++p)
        strength += (V)((VI)splat(pulls_[p].strength) & lanes_of(pulls_[p].where, k));
      if (dense_) strength += load(pull_.get() + k);
      const V constant = load(constant_.get() + k), anchor = load(y_.get() + k);
      const VI pulled = strength != 0.0f;
      for (int i = 0; i < W; ++i) {
        if (pulled[i] || constant[i] == 0.0f) continue;
        std::memcpy(anchor_.get(), y_.get(), layout_.size * sizeof(float));
        return false;
      }
      store(anchor_.get() + k, pulled ? anchor - constant / strength : anchor);
    }
    return true;
  }

  void read_recursion(std::int64_t row) {
    layout_.read(job_.momentum, row, momentum_.get());
    layout_.read(job_.square, row, square_.get());
    layout_.read(job_.scale, row, scale_.get());
    for (std::ptrdiff_t k = 0; k < layout_.size; k += W) {
      const V y = load(y_.get() + k);
      const V ahead = y + load(scale_.get() + k) * load(momentum_.get() + k);
      store(previous_.get() + k, lanes_of(shared_.data(), k) ? ahead : y);
    }
  }

  Optimiser at_step(const PlflRule& rule, std::int64_t shared, std::int64_t personal,
                    bool last) const {
    Optimiser o{};
    o.y = y_.get();
    o.m = m_.get();
    o.v = v_.get();
    o.vmax = vmax_.get();
    o.gradients = gradients_.get();
    o.anchor = anchor_.get();
    o.pull = dense_ ? pull_.get() : nullptr;
    const bool proximal = rule.proximal != 0;
    o.pulls = pulls_.data() + !proximal;
    o.pull_count = int(pulls_.size()) - !proximal;
    o.constant = constant_.get();
    o.step_offset = step_offset_.get();
    o.shared = shared_.data();
    o.frozen = frozen_.data();
    o.lr = float(rule.lr);
    o.keep1 = float(rule.beta1);
    o.take1 = float(1 - rule.beta1);
    o.keep2 = float(rule.beta2);
    o.take2 = float(1 - rule.beta2);
    o.correction = correction(rule, shared);
    o.mixed = shared != personal;
    if (o.mixed) o.personal = correction(rule, personal);
    o.momentum = momentum_.get();
    o.square = square_.get();
    o.previous = previous_.get();
    o.scale = scale_.get();
    o.recall = float(1 - job_.a);
    o.decay = float(job_.beta);
    o.renew = float(1 - job_.beta);
    o.moves = !last;
    return o;
  }

  static Correction correction(const PlflRule& rule, std::int64_t k) {
    if (rule.kind == kMomentum) return {0.0f, 0.0f, 0.0f, k > 1 ? float(1 - rule.beta2) : 1.0f};
    const double c1 = 1 - std::pow(rule.beta1, double(k));
    const double c2 = 1 - std::pow(rule.beta2, double(k));
    if (rule.kind == kAdamAms && rule.variant == kPaper)
      return {float(rule.lr / c1), float(1 / c2), float(rule.eps), 0.0f};
    if (rule.kind == kAdamAms && rule.variant == kReddi)
      return {float(rule.lr), 1.0f, float(rule.eps), 0.0f};
    // y −= η (m / c₁) / (√(v / c₂) + ε) = (η √c₂ / c₁) · m / (√v + ε √c₂)
    return {float(rule.lr * std::sqrt(c2) / c1), 1.0f, float(rule.eps * std::sqrt(c2)), 0.0f};
  }

  // Hand the gradient of minibatch k of a row at `model` to `apply`; returns the loss there.
  float pass(const float* model, Apply apply, std::int64_t row, std::int64_t k, bool last) {
    const std::int64_t batch = job_.batch, at = (row * job_.steps + k) * batch;
    const std::int64_t* starts = job_.starts + at;
    const float scale = float(job_.loss_scale) / float(batch);
    float sum = 0.0f;
    for_each_group([&](Group& group, std::int64_t first, int count) {
      group.forward(model, job_.table, starts + first, count);
      const float* targets = job_.targets ? job_.targets + at + first : nullptr;
      sum += group.loss(job_.table, starts + first, targets, count, 2.0f * scale);
    });
    for (int j = layout_.hidden_layers(); j >= 0; --j) {
      for (Group& group : groups_) group.mlp_backward(model, j);
      update_mlp(j, apply);
    }
    if (!last) {  // late enough to be still in the cache when the next step begins
      for_each_group([&](Group& group, std::int64_t first, int count) {
        group.prefetch(job_.table, starts + batch + first, count);
      });
    }
    for (Group& group : groups_) group.lstm_backward(model);
    update_lstm(apply);
    return sum * scale;
  }

  // Call body(group, first sample, samples) for every group of a batch.
  template <class Body>
  void for_each_group(Body body) {
    std::int64_t first = 0;
    for (Group& group : groups_) {
      body(group, first, int(std::min<std::int64_t>(kLanes, job_.batch - first)));
      first += kLanes;
    }
  }

  void update_mlp(int j, Apply apply) {
    const Matrix& matrix = layout_.mlp[j];
    const Samples samples{int(groups_.size()), 1, at_.size, 0, 0};
    const bool has_slopes = j < layout_.hidden_layers();
    update(matrix, samples, memory_.get() + at_.dx[j + 1], memory_.get() + at_.xt[j],
           has_slopes ? j : -1, apply);
  }

  void update_lstm(Apply apply) {
    const std::ptrdiff_t left = std::ptrdiff_t(layout_.lstm_inputs()) * kLanes;
    const std::ptrdiff_t right = std::ptrdiff_t(at_.gate_rows) * kLanes;
    const Samples samples{int(groups_.size()), layout_.steps, at_.size, left, right};
    update(layout_.lstm, samples, memory_.get() + at_.inputs, memory_.get() + at_.gates, -1,
           apply);
  }

  // The gradient Σ left·rightᵀ of a matrix, tile by tile, each handed to `apply` at once.
  void update(const Matrix& matrix, const Samples& samples, const float* left, const float* right,
              int slope_layer, Apply apply) {
    alignas(kAlignment) float tile[kGradientPanels * kGradientRows * kPanel];
    in_pieces(matrix.panels(), kGradientPanels, [&](int panel, int panels) {
      in_pieces(matrix.rows, kGradientRows, [&](int row, int rows) {
        gradient_of(panels, rows,
                    std::make_integer_sequence<int, kGradientPanels * kGradientRows>{})(
            samples, left + row * kLanes, right + panel * kBlock, tile);
        for (int p = 0; p < panels; ++p) {
          float* gradient = tile + p * rows * kPanel;
          if (slope_layer >= 0 && panel + p == (matrix.columns - 1) / kPanel)
            add_slopes(slope_layer, row, rows, gradient + (matrix.columns - 1) % kPanel);
          apply(optimiser_, matrix.panel(panel + p) + row * kPanel, gradient, rows * kPanel);
        }
      });
    });
  }

  // The slopes' column of a tile: its gradient is no product but the sum of `slope_terms`.
  void add_slopes(int layer, int row, int rows, float* column) const {
    for (int r = 0; r < rows; ++r) {
      const int unit = row + r;
      float sum = 0.0f;
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        const float* terms = memory_.get() + std::ptrdiff_t(g) * at_.size + at_.slope_terms[layer] +
                             unit / kPanel * kBlock + unit % kPanel;
        for (int lane = 0; lane < kLanes; ++lane) sum += terms[lane * kPanel];
      }
      column[r * kPanel] = sum;
    }
  }

  const Layout& layout_;
  const PlflTraining& job_;
  const GroupLayout at_;
  Floats memory_, y_, m_, v_, vmax_, anchor_, pull_, constant_, step_offset_, gradients_;
  Floats momentum_, square_, previous_, scale_;  // of the recursion
  const Mask shared_, frozen_;
  std::vector<Group> groups_;
  Optimiser optimiser_{};
  Apply apply_ = nullptr;
  std::vector<Pull> pulls_{1};  // the optimiser's, then those of `job_.pull`
  std::deque<Mask> masks_;      // of these
  bool dense_ = false;          // whether they are in `pull_` instead
};

// ---------------------------------------------------------------------------------------------
// Forecasts

extern "C" struct PlflPrediction {
  std::int64_t rows, threads;
  const float* theta;            // [rows][parameters]
  const float* table;            // [·][features]
  const std::int64_t* offsets;   // [rows + 1] of each row's windows in the next two
  const std::int64_t* starts;
  float* forecasts;
};

class Predictor {
 public:
  Predictor(const Layout& layout, const PlflPrediction& job)
      : layout_(layout), job_(job), at_(layout), memory_(at_.size), model_(layout.size),
        group_(layout, at_, memory_.get()) {}

  void predict(std::int64_t row) {
    layout_.read(job_.theta, row, model_.get());
    const std::int64_t end = job_.offsets[row + 1];
    for (std::int64_t i = job_.offsets[row]; i < end; i += kLanes) {
      const int count = int(std::min<std::int64_t>(kLanes, end - i));
      const float* forecasts =
          group_.forward(model_.get(), job_.table, job_.starts + i, count);
      std::copy_n(forecasts, count, job_.forecasts + i);
    }
  }

 private:
  const Layout& layout_;
  const PlflPrediction& job_;
  const GroupLayout at_;
  Floats memory_, model_;
  Group group_;
};

// ---------------------------------------------------------------------------------------------
// Threads

// Numbers too small to be normal become zero while it lives: some processors are very slow with
// them, and a moment that fades away passes through them.
class FlushDenormals {
#if defined(__SSE2__)
 public:
  FlushDenormals() { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  const unsigned before_ = _mm_getcsr();
#else
 public:
  FlushDenormals() {}
#endif
};

// Call body(worker, row) for every row of a job, on at most `job.threads` threads with a worker
// each. Rows are taken one by one, so that a slow core does not hold up the others. Returns 0, or
// 1 when memory ran out.
template <class Worker, class Job, class Body>
int run(const PlflNetwork& network, const Job& job, Body body) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  try {
    const Layout layout(network);
    const auto work = [&] {
      const FlushDenormals flush;
      try {
        const auto worker = std::make_unique<Worker>(layout, job);
        for (std::int64_t row; !failed && (row = next++) < job.rows;) body(*worker, row);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    };
    std::vector<std::thread> pool;
    pool.reserve(std::size_t(job.threads));
    try {
      while (std::int64_t(pool.size()) + 1 < std::min(job.threads, job.rows))
        pool.emplace_back(work);
    } catch (const std::exception&) {
      // Fewer threads than asked for: the ones there are do all the rows.
    }
    work();
    for (std::thread& thread : pool) thread.join();
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return failed ? 1 : 0;
}

}  // namespace

extern "C" {

// Take `steps` local steps with every row; 0 on success, 1 when memory ran out.
int plfl_train(const PlflNetwork* network, const PlflTraining* job) {
  return run<Trainer>(*network, *job,
                      [](Trainer& trainer, std::int64_t row) { trainer.train(row); });
}

// Forecast every window of every row; 0 on success, 1 when memory ran out.
int plfl_predict(const PlflNetwork* network, const PlflPrediction* job) {
  return run<Predictor>(*network, *job,
                        [](Predictor& predictor, std::int64_t row) { predictor.predict(row); });
}
}
