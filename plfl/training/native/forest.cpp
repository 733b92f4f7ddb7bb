// Forecasts by LightGBM's trees, to the bits of LightGBM: see plfl/training/tree_kernel.py.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

// A split: rows whose feature is at most the threshold go on with the first child. A child below 0
// is the complement of a leaf's number.
struct Split {
  double threshold;
  std::int32_t feature;
  std::int32_t missing_first;  // whether rows without the feature do so, too
  std::int32_t children[2];
};

constexpr std::int64_t kTogether = 8;  // rows that go down a tree together, so that none waits
constexpr std::int64_t kBlock = 64;    // rows that stay in the cache while all trees see them
constexpr double kZero = 1e-35f;       // LightGBM reads smaller values as 0

// Add the leaves of `kTogether` rows [kTogether, features] in a tree to `sums`.
void add_leaves(const Split* splits, const double* leaves, const double* rows,
                std::int64_t features, double* sums) {
  std::int32_t nodes[kTogether] = {};
  for (bool is_going = true; is_going;) {
    is_going = false;
    for (std::int64_t k = 0; k < kTogether; ++k) {
      const std::int32_t node = nodes[k];
      const Split& split = splits[std::max(node, 0)];
      const double value = rows[k * features + split.feature];
      const bool is_first = (value <= split.threshold) | ((value != value) & split.missing_first);
      const std::int32_t next = split.children[!is_first];
      nodes[k] = node < 0 ? node : next;
      is_going |= nodes[k] >= 0;
    }
  }
  for (std::int64_t k = 0; k < kTogether; ++k) sums[k] += leaves[~nodes[k]];
}

}  // namespace

extern "C" {

// Write the sums of trees for rows x [rows, features] into `sums` [rows]. Tree t has the splits
// from first_splits[t] to first_splits[t + 1] and the leaves from first_leaves[t] on. `block` has
// room for 64 rows.
void plfl_sum_trees(const double* x, std::int64_t rows, std::int64_t features, const Split* splits,
                    const std::int64_t* first_splits, const double* leaves,
                    const std::int64_t* first_leaves, std::int64_t trees, double* block,
                    double* sums) {
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t size = std::min(kBlock, rows - first);
    double block_sums[kBlock] = {};
    std::fill(block, block + kBlock * features, 0.0);
    for (std::int64_t i = 0; i < size * features; ++i) {
      const double value = x[first * features + i];
      block[i] = std::fabs(value) <= kZero ? 0.0 : value;
    }
    for (std::int64_t t = 0; t < trees; ++t) {
      const double* tree_leaves = leaves + first_leaves[t];
      if (first_splits[t] == first_splits[t + 1]) {  // a tree of one leaf
        for (double& sum : block_sums) sum += tree_leaves[0];
        continue;
      }
      for (std::int64_t k = 0; k < size; k += kTogether)
        add_leaves(splits + first_splits[t], tree_leaves, block + k * features, features,
                   block_sums + k);
    }
    std::copy(block_sums, block_sums + size, sums + first);
  }
}
}
