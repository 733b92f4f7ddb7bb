// Forecasts of a row, and the features that it computes.

#pragma once

#include "group.h"

namespace {

extern "C" struct PlflPrediction {
  std::int64_t rows, threads;
  const float* theta;           // [rows][parameters]
  const std::int64_t* offsets;  // [rows + 1] of each row's windows in the next two
  const std::int64_t* starts;
  float* forecasts;  // [window][output]
};

class Predictor {
 public:
  Predictor(const Layout& layout, const PlflWindows& windows, const PlflPrediction& job)
      : layout_(layout), windows_(windows), job_(job), at_(layout), memory_(at_.size),
        model_(layout.size), group_(layout, at_, memory_.get()) {}

  void predict(std::int64_t row) {
    layout_.read(job_.theta, row, model_.get());
    const std::int64_t end = job_.offsets[row + 1];
    for (std::int64_t i = job_.offsets[row]; i < end; i += kLanes) {
      const int count = int(std::min<std::int64_t>(kLanes, end - i));
      group_.read(windows_, job_.starts + i, count);
      group_.forward(model_.get());
      for (int lane = 0; lane < count; ++lane)
        for (int o = 0; o < layout_.outputs; ++o)
          job_.forecasts[(i + lane) * layout_.outputs + o] = group_.prediction(o, lane);
    }
  }

 private:
  const Layout& layout_;
  const PlflWindows& windows_;
  const PlflPrediction& job_;
  const GroupLayout at_;
  Floats memory_, model_;
  Group group_;
};

extern "C" struct PlflReading {
  std::int64_t rows, steps, batch, threads;
  std::int64_t layer;          // of the MLP, whose inputs are read
  const float* theta;          // [rows][parameters]
  const std::int64_t* starts;  // [rows][steps][batch]
  float* features;             // [rows][steps][input][batch]
};

class Reader {
 public:
  Reader(const Layout& layout, const PlflWindows& windows, const PlflReading& job)
      : layout_(layout), windows_(windows), job_(job), at_(layout), memory_(at_.size),
        model_(layout.size), group_(layout, at_, memory_.get()) {}

  void read(std::int64_t row) {
    layout_.read(job_.theta, row, model_.get());
    const int width = layout_.widths[job_.layer];
    for (std::int64_t k = row * job_.steps; k < (row + 1) * job_.steps; ++k) {
      for (std::int64_t i = 0; i < job_.batch; i += kLanes) {
        const int count = int(std::min<std::int64_t>(kLanes, job_.batch - i));
        group_.read(windows_, job_.starts + k * job_.batch + i, count);
        const float* inputs = group_.features(model_.get(), int(job_.layer));
        for (int w = 0; w < width; ++w)
          std::copy_n(inputs + w * kLanes, count, job_.features + (k * width + w) * job_.batch + i);
      }
    }
  }

 private:
  const Layout& layout_;
  const PlflWindows& windows_;
  const PlflReading& job_;
  const GroupLayout at_;
  Floats memory_, model_;
  Group group_;
};

}  // namespace
