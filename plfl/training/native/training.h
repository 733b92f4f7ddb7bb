// Training a row.

#pragma once

#include <deque>

#include "optimisers.h"

namespace {

extern "C" struct PlflTraining {
  std::int64_t rows, steps, batch, threads;
  float* theta;                // [rows][parameters], trained in place
  const std::int64_t* starts;  // [rows][steps][batch]
  const PlflRule* rules;       // [rows]
  const std::int64_t* taken;   // [rows][2] steps that led to the state: shared part, the rest
  const std::uint8_t* shared;  // [parameters]
  float *m, *v, *vmax;         // [rows][parameters], state in and out; null: zero at first
  double* losses;              // [rows], means over the steps
  std::int64_t loss;           // see `LossKind`
  const float* levels;         // [quantiles] of a pinball loss
  std::int64_t quantiles;
  double loss_scale;
  // Null if there is no such term:
  const float* pull;              // [parameters], a of a·(y − y⁰) in every gradient
  const float* constant;          // [rows][parameters], added to every gradient
  const float* step_offset;       // [rows][parameters], added after every step
  const float* targets;           // [rows][steps][batch][horizons], instead of the windows' own
  const std::int64_t* row_steps;  // [rows] steps to take, at most `steps`; null: `steps`
  float* gradients;               // [rows][parameters], sums of gradients without terms, out
  const std::uint8_t* frozen;     // [parameters] that stay as they are
  const float* by_feature;        // [rows][steps][input][batch], gradient of a further term by the
  std::int64_t layer;             // inputs of this layer of the MLP
  double clip;                    // largest norm of a gradient; 0: any
  float* average;                 // [rows][parameters], over the steps, in and out
  const double* averaged;         // [rows] steps averaged so far
  double limit;                   // of its decay
};

constexpr float kClose = 1e-6f;        // is added to a norm before dividing by it, as in PyTorch
constexpr int kFetched = 2;            // windows that are fetched while a tile is formed
constexpr std::size_t kStrengths = 4;  // most strengths of a pull that are kept as masks

// The state of an optimiser; empty parts if its kind lacks them.
struct Moments {
  Moments(const Layout& layout, const PlflTraining& job)
      : m(any(job, kMomentum) ? layout.size : 0), v(any(job, kAdam) ? layout.size : 0),
        vmax(any(job, kAdamAms, kAdamAms) ? layout.size : 0) {}

  // Null rows: zeros.
  void read(const Layout& layout, std::int64_t row, const PlflTraining& job) const {
    if (m.get()) layout.read(job.m, row, m.get());
    if (v.get()) layout.read(job.v, row, v.get());
    if (vmax.get()) layout.read(job.vmax, row, vmax.get());
  }

  void write(const Layout& layout, std::int64_t row, const PlflTraining& job) const {
    if (m.get() && job.m) layout.write(m.get(), row, job.m);
    if (v.get() && job.v) layout.write(v.get(), row, job.v);
    if (vmax.get() && job.vmax) layout.write(vmax.get(), row, job.vmax);
  }

  const Floats m, v, vmax;

 private:
  static bool any(const PlflTraining& job, int least, int most = kAdamW) {
    return std::any_of(job.rules, job.rules + job.rows, [&](const PlflRule& rule) {
      return least <= rule.kind && rule.kind <= most;
    });
  }
};

class Trainer {
 public:
  Trainer(const Layout& layout, const PlflWindows& windows, const PlflTraining& job)
      : layout_(layout), windows_(windows), job_(job),
        loss_{int(job.loss), job.levels, int(job.quantiles)}, at_(layout),
        memory_(at_.size * ((job.batch + kLanes - 1) / kLanes)), y_(layout.size),
        moments_(layout, job), anchor_(layout.size), pull_(job.pull ? layout.size : 0),
        constant_(job.constant ? layout.size : 0), step_offset_(job.step_offset ? layout.size : 0),
        gradients_(job.gradients ? layout.size : 0), average_(job.average ? layout.size : 0),
        added_(job.by_feature ? layout.widths[job.layer] * kLanes : 0),
        shared_(layout.mask(job.shared)), frozen_(layout.mask(job.frozen)) {
    for (std::int64_t first = 0; first < job.batch; first += kLanes)
      groups_.emplace_back(layout, at_, memory_.get() + at_.size * std::int64_t(groups_.size()));
    if (job.pull) read_pull();
  }

  void train(std::int64_t row) {
    read_row(row);
    choose_apply(row);
    const std::int64_t steps = job_.row_steps ? job_.row_steps[row] : job_.steps;
    double loss = 0.0;
    for (std::int64_t k = 0; k < steps; ++k) loss += step(row, k, k + 1 == steps);
    job_.losses[row] = loss / double(steps);
    write_row(row);
  }

 private:
  bool clips() const { return job_.clip > 0; }

  // Read the model, its moments, and its part of every term.
  void read_row(std::int64_t row) {
    read(job_.theta, row, y_);
    moments_.read(layout_, row, job_);
    read(job_.constant, row, constant_);
    read(job_.step_offset, row, step_offset_);
    if (job_.gradients) layout_.read(nullptr, row, gradients_.get());
    read(job_.average, row, average_);
  }

  // Write back everything from `read_row` that training has changed.
  void write_row(std::int64_t row) const {
    if (job_.rules[row].lr != 0 || job_.step_offset) write(y_, row, job_.theta);
    moments_.write(layout_, row, job_);
    write(gradients_, row, job_.gradients);
    write(average_, row, job_.average);
  }

  // Null rows: there is no such term.
  void read(const float* rows, std::int64_t row, const Floats& into) const {
    if (rows) layout_.read(rows, row, into.get());
  }

  void write(const Floats& from, std::int64_t row, float* rows) const {
    if (rows) layout_.write(from.get(), row, rows);
  }

  void copy(const Floats& from, const Floats& to) const {
    std::memcpy(to.get(), from.get(), layout_.size * sizeof(float));
  }

  // Choose the functions that step along a gradient by the terms of the row. This also sets the
  // anchor, which may include a constant.
  void choose_apply(std::int64_t row) {
    const PlflRule& rule = job_.rules[row];
    const bool proximal = rule.proximal != 0, pulled = proximal || job_.pull;
    // The optimiser's own pull acts on shared parameters.
    pulls_[0] = {float(rule.proximal), shared_.data()};
    if (pulled) copy(y_, anchor_);
    const bool constant = job_.constant && (!pulled || !move_anchor(proximal));
    const bool each = behind(row, kShared) != behind(row, kPersonal) || rule.coupled_decay != 0;
    const bool other = dense_ || job_.step_offset || job_.gradients || job_.frozen || each;
    apply_ = apply_of(rule, pulled * kPulled | constant * kConstant | other * kOther);
  }

  // Take step k, counted from 0; returns the loss of its minibatch. `last`: whether it is the row's
  // last step.
  double step(std::int64_t row, std::int64_t k, bool last) {
    optimiser_ = at_step(row, k);
    const double loss = pass(row, k, last);
    if (job_.average) advance_average(job_.averaged[row] + double(k + 1));
    return loss;
  }

  // Steps of earlier rounds that led to a part of the row's moments.
  enum Part { kShared = 0, kPersonal = 1 };
  std::int64_t behind(std::int64_t row, Part part) const { return job_.taken[2 * row + part]; }

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

  // Turn a·(y − anchor) + c into a pull to anchor − c / a, which saves an array in the cache.
  // Returns false and changes nothing if the row has a constant where nothing pulls.
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
        copy(y_, anchor_);
        return false;
      }
      store(anchor_.get() + k, pulled ? anchor - constant / strength : anchor);
    }
    return true;
  }

  // Include the model in the average as its step `t`.
  void advance_average(double t) {
    const float part = float(1 - std::min((1 + t) / (10 + t), job_.limit));
    for (std::ptrdiff_t k = 0; k < layout_.size; k += W) {
      const V own = load(average_.get() + k);
      store(average_.get() + k, own + part * (load(y_.get() + k) - own));
    }
  }

  // The optimiser at local step k, counted from 0.
  Optimiser at_step(std::int64_t row, std::int64_t k) const {
    const PlflRule& rule = job_.rules[row];
    const std::int64_t shared = behind(row, kShared) + k + 1;
    const std::int64_t personal = behind(row, kPersonal) + k + 1;
    Optimiser o{};
    o.y = y_.get();
    o.m = moments_.m.get();
    o.v = moments_.v.get();
    o.vmax = moments_.vmax.get();
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
    o.shrink = float(1 - rule.lr * rule.weight_decay);
    o.coupled = float(rule.coupled_decay);
    o.correction = correction(rule, shared);
    o.mixed = shared != personal;
    if (o.mixed) o.personal = correction(rule, personal);
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

  // Call `apply_` with the gradient of minibatch `k` of a row, tile by tile; returns its loss.
  float pass(std::int64_t row, std::int64_t k, bool last) {
    const std::int64_t batch = job_.batch, minibatch = row * job_.steps + k, at = minibatch * batch;
    const std::int64_t* starts = job_.starts + at;
    const float* model = y_.get();
    const float scale = float(job_.loss_scale) / float(batch * layout_.outputs);
    float sum = 0.0f;
    for_each_group([&](Group& group, std::int64_t first, int count) {
      group.read(windows_, starts + first, count);
      group.forward(model);
      const float* targets =
          job_.targets ? job_.targets + (at + first) * windows_.horizons : nullptr;
      sum += group.compare(loss_, windows_, starts + first, targets, count, scale);
    });
    const auto use = [&](std::ptrdiff_t at, const float* gradient, int count) {
      apply_(optimiser_, at, gradient, count);
    };
    upcoming_ = starts + batch;
    upcoming_end_ = last ? upcoming_ : upcoming_ + batch;
    for (int j = layout_.hidden_layers(); j >= 0; --j) {
      const bool added = job_.by_feature && j == job_.layer;
      for_each_group([&](Group& group, std::int64_t first, int count) {
        if (added) read_added(minibatch, first, count);
        group.mlp_backward(model, j, added ? added_.get() : nullptr);
      });
      if (!clips()) gradient_of_mlp(j, use);
    }
    if (layout_.recurrent()) {
      for (Group& group : groups_) group.lstm_backward(model);
      if (!clips()) gradient_of_lstm(use);
    }
    if (clips()) clipped(use);
    return sum * scale;
  }

  // The further gradient of a group's features, zero in spare lanes.
  void read_added(std::int64_t minibatch, std::int64_t first, int count) const {
    const int width = layout_.widths[job_.layer];
    const float* from = job_.by_feature + minibatch * width * job_.batch + first;
    for (int w = 0; w < width; ++w)
      std::fill_n(std::copy_n(from + w * job_.batch, count, added_.get() + w * kLanes),
                  kLanes - count, 0.0f);
  }

  // Call `use` with the tiles of the gradient, clipped to its largest norm. The gradient is
  // computed twice, because it never exists as a whole.
  template <class Use>
  void clipped(Use use) {
    V squares{};
    in_all([&](std::ptrdiff_t at, float* gradient, int count) {
      for (int i = 0; i < count; i += W) {
        const V g = trained(load(gradient + i), at + i);
        squares += g * g;
      }
    });
    float square = 0.0f;
    for (int i = 0; i < W; ++i) square += squares[i];
    const float shorter = std::min(1.0f, float(job_.clip) / (std::sqrt(square) + kClose));
    in_all([&](std::ptrdiff_t at, float* gradient, int count) {
      for (int i = 0; i < count; i += W) {
        store(gradient + i, trained(shorter * load(gradient + i), at + i));
      }
      use(at, gradient, count);
    });
  }

  // The gradient of y[k : k + W], zero where it is frozen.
  V trained(V gradient, std::ptrdiff_t k) const {
    if (!job_.frozen) return gradient;
    return lanes_of(frozen_.data(), k) ? V{} : gradient;
  }

  // Call `use` with the tiles of the gradients of all matrices.
  template <class Use>
  void in_all(Use use) {
    for (int j = layout_.hidden_layers(); j >= 0; --j) gradient_of_mlp(j, use);
    if (layout_.recurrent()) gradient_of_lstm(use);
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

  template <class Use>
  void gradient_of_mlp(int j, Use use) {
    const Matrix& matrix = layout_.mlp[j];
    const Samples samples{int(groups_.size()), 1, at_.size, 0, 0};
    form_gradient(matrix, samples, memory_.get() + at_.mlp.dx[j + 1], memory_.get() + at_.mlp.xt[j],
                  layout_.has_slopes(j) ? j : -1, use);
  }

  template <class Use>
  void gradient_of_lstm(Use use) {
    const std::ptrdiff_t left = std::ptrdiff_t(layout_.lstm_inputs()) * kLanes;
    const std::ptrdiff_t right = std::ptrdiff_t(at_.lstm.gate_rows) * kLanes;
    const Samples samples{int(groups_.size()), layout_.steps, at_.size, left, right};
    form_gradient(layout_.lstm, samples, memory_.get() + at_.lstm.inputs,
                  memory_.get() + at_.lstm.gates, -1, use);
  }

  // The gradient Σ left·rightᵀ of a matrix, tile by tile: each goes to use(place, tile, count) at
  // once.
  template <class Use>
  void form_gradient(const Matrix& matrix, const Samples& samples, const float* left,
                     const float* right, int slope_layer, Use use) {
    alignas(kAlignment) float tile[kGradientPanels * kGradientRows * kPanel];
    in_pieces(matrix.panels(), kGradientPanels, [&](int panel, int panels) {
      in_pieces(matrix.rows, kGradientRows, [&](int row, int rows) {
        prefetch();
        gradient_of(panels, rows,
                    std::make_integer_sequence<int, kGradientPanels * kGradientRows>{})(
            samples, left + row * kLanes, right + panel * kBlock, tile);
        for (int p = 0; p < panels; ++p) {
          float* gradient = tile + p * rows * kPanel;
          if (slope_layer >= 0 && panel + p == (matrix.columns - 1) / kPanel)
            add_slopes(slope_layer, row, rows, gradient + (matrix.columns - 1) % kPanel);
          use(matrix.panel(panel + p) + row * kPanel, gradient, rows * kPanel);
        }
      });
    });
  }

  // Prefetch some of the rows that the next minibatch will read. They are far apart in tables
  // larger than the cache, and only a few can be on their way at a time.
  void prefetch() {
    for (int i = 0; i < kFetched && upcoming_ < upcoming_end_; ++i)
      groups_[0].prefetch(windows_, *upcoming_++);
  }

  // The column of slopes in a tile: its gradient is not a product but the sum of `terms`.
  void add_slopes(int layer, int row, int rows, float* column) const {
    for (int r = 0; r < rows; ++r) {
      const int unit = row + r;
      float sum = 0.0f;
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        const float* terms = memory_.get() + std::ptrdiff_t(g) * at_.size + at_.mlp.terms[layer] +
                             unit / kPanel * kBlock + unit % kPanel;
        for (int lane = 0; lane < kLanes; ++lane) sum += terms[lane * kPanel];
      }
      column[r * kPanel] = sum;
    }
  }

  const Layout& layout_;
  const PlflWindows& windows_;
  const PlflTraining& job_;
  const Loss loss_;
  const GroupLayout at_;
  Floats memory_, y_;
  Moments moments_;
  Floats anchor_, pull_, constant_, step_offset_, gradients_;
  Floats average_;  // of the model over its steps
  Floats added_;    // see `read_added`
  const Mask shared_, frozen_;
  std::vector<Group> groups_;
  const std::int64_t *upcoming_ = nullptr, *upcoming_end_ = nullptr;  // windows to be fetched
  Optimiser optimiser_{};
  Apply apply_ = nullptr;
  std::vector<Pull> pulls_{1};  // the optimiser's pull, then those of `job_.pull`
  std::deque<Mask> masks_;      // of these
  bool dense_ = false;          // whether they are in `pull_` instead
};

}  // namespace
