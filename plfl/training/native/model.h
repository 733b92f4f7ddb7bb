// The form of a model: its matrices, and the place of every parameter in them.

#pragma once

#include <vector>

#include "products.h"

namespace {

// The form of a model, see plfl.layout.KernelForm. An LSTM with 0 units means that there is none.
extern "C" struct PlflNetwork {
  std::int32_t features, look_back, covariates;  // of a window
  std::int32_t hidden;                           // units of the LSTM
  std::int32_t layers;                           // hidden layers of the MLP
  const std::int32_t* widths;                    // of the hidden layers
  std::int32_t activation;                       // of the hidden layers, see `Activation`
  std::int32_t absolute;                         // whether an output is |·|
  std::int32_t outputs;                          // of the last layer
};

enum Activation { kPrelu = 0, kSilu = 1 };

typedef std::vector<std::uint16_t> Mask;  // a bit per parameter, laid out like the model

// Matrices of a model and the place of every parameter in them.
//
// Rows of the LSTM's matrix are its inputs (features, the two biases' ones, hidden state) and its
// columns are gates. A hidden state of zeros then saves the last rows at the first time step.
// Rows of an MLP's matrix are its outputs; columns are inputs, the bias and a PReLU's slope. The
// first one reads the LSTM's states or, without an LSTM, the window.
struct Layout {
  explicit Layout(const PlflNetwork& network)
      : features(network.features), steps(network.look_back), covariates(network.covariates),
        hidden(network.hidden), activation(network.activation), absolute(network.absolute),
        outputs(network.outputs) {
    if (recurrent()) {
      lstm = add(features + 2 + hidden, 4 * hidden);
      for (int g = 0; g < gates(); ++g)
        for (int f = 0; f < features; ++f) place.push_back(lstm.at(f, g));
      for (int g = 0; g < gates(); ++g)
        for (int h = 0; h < hidden; ++h) place.push_back(lstm.at(features + 2 + h, g));
      for (int bias = 0; bias < 2; ++bias)
        for (int g = 0; g < gates(); ++g) place.push_back(lstm.at(features + bias, g));
    }
    int inputs = recurrent() ? steps * hidden : steps * features + covariates;
    for (int layer = 0; layer <= network.layers; ++layer) {
      const int units = layer == network.layers ? outputs : network.widths[layer];
      const bool slopes = activation == kPrelu && layer < network.layers;
      const Matrix matrix = add(units, inputs + 1 + slopes);
      for (int u = 0; u < units; ++u)
        for (int i = 0; i < inputs; ++i) place.push_back(matrix.at(u, i));
      for (int extra = inputs; extra < matrix.columns; ++extra)
        for (int u = 0; u < units; ++u) place.push_back(matrix.at(u, extra));
      mlp.push_back(matrix);
      widths.push_back(inputs);
      inputs = units;
    }
    for (std::size_t p = 0; p < place.size(); ++p) {
      const bool follows = p > 0 && place[p] == place[p - 1] + 1 && runs.back().count < kPanel;
      if (!follows) runs.push_back({std::ptrdiff_t(p), place[p], 0});
      ++runs.back().count;
    }
  }

  // Copy row `row` of `rows` [·][parameters] into the layout of a model; zeros if `rows` is null.
  void read(const float* rows, std::int64_t row, float* model) const {
    std::memset(model, 0, size * sizeof(float));
    if (!rows) return;
    const float* from = rows + row * std::int64_t(place.size());
    for (const Run& run : runs) copy(from + run.parameter, model + run.place, run.count);
  }

  // A mask of parameters in the layout of a model; empty if it is null.
  Mask mask(const std::uint8_t* parameters) const {
    Mask bits(parameters ? size / kPanel : 0, 0);
    for (std::size_t p = 0; p < place.size() && parameters; ++p)
      if (parameters[p]) bits[place[p] / kPanel] |= std::uint16_t(1u << (place[p] % kPanel));
    return bits;
  }

  void write(const float* model, std::int64_t row, float* rows) const {
    float* to = rows + row * std::int64_t(place.size());
    for (const Run& run : runs) copy(model + run.place, to + run.parameter, run.count);
  }

  bool recurrent() const { return hidden > 0; }
  int gates() const { return 4 * hidden; }
  int lstm_inputs() const { return lstm.rows; }
  int hidden_layers() const { return int(mlp.size()) - 1; }
  bool has_slopes(int layer) const { return activation == kPrelu && layer < hidden_layers(); }

  int features, steps, covariates, hidden, activation;
  bool absolute;
  int outputs;
  Matrix lstm{};
  std::vector<Matrix> mlp;
  std::vector<int> widths;            // inputs of each of `mlp`
  std::vector<std::ptrdiff_t> place;  // of each parameter of a row of theta
  struct Run {
    std::ptrdiff_t parameter, place;
    int count;
  };
  std::vector<Run> runs;    // of at most 16 parameters that are neighbours in both
  std::ptrdiff_t size = 0;  // floats of a model, padding included

 private:
  static void copy(const float* from, float* to, int count) {
    if (count == kPanel) {  // a size that the compiler knows
      std::memcpy(to, from, kPanel * sizeof(float));
    } else {
      for (int i = 0; i < count; ++i) to[i] = from[i];
    }
  }

  Matrix add(int rows, int columns) {
    const Matrix matrix{rows, columns, size};
    size += matrix.size();
    return matrix;
  }
};

// Places in the memory of a group of 16 samples, row after row of 16 floats.
struct Rows {
  std::ptrdiff_t size = 0;

  std::ptrdiff_t add(int rows) {
    const std::ptrdiff_t start = size;
    size += std::ptrdiff_t(rows) * kLanes;
    return start;
  }
};

}  // namespace
