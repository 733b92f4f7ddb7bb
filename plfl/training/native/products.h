// Products with a matrix that is stored in panels of 16 columns, and gradients of one.

#pragma once

#include "vectors.h"

namespace {

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

// Tables of the functions for tiles by size, because the size is known only at run time.
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

// Call body(begin, size) for as few pieces of [0, count) as possible, each at most `limit` long and
// all about equal.
template <class Body>
void in_pieces(int count, int limit, Body body) {
  const int pieces = (count + limit - 1) / limit;
  for (int i = 0, begin = 0; i < pieces; ++i) {
    const int size = (count - begin) / (pieces - i);
    body(begin, size);
    begin += size;
  }
}

// y = M[first : first + rows]·x, using only the first `columns` columns.
void product(const float* model, const Matrix& matrix, int first, int rows, int columns,
             const float* x, float* y) {
  in_pieces(rows, kRowTile, [&](int begin, int size) {
    product_of(size, std::make_integer_sequence<int, kRowTile>{})(
        model + matrix.at(first + begin, 0), std::ptrdiff_t(matrix.rows) * kPanel, columns, x,
        y + begin * kLanes);
  });
}

// y = Mᵀ·x for the first `columns` columns, using only the first `rows` rows.
void transposed_product(const float* model, const Matrix& matrix, int rows, int columns,
                        const float* x, float* y) {
  for (int c = 0; c < columns; c += kPanel) {
    in_pieces(std::min(kPanel, columns - c), kColumnTile, [&](int begin, int size) {
      transposed_of(size, std::make_integer_sequence<int, kColumnTile>{})(
          model + matrix.at(0, c + begin), rows, x, y + (c + begin) * kLanes);
    });
  }
}

}  // namespace
