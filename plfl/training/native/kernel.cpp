// Local training of many small forecasters (an MLP, with or without an LSTM before it), each by
// itself, on the CPU.
//
// A model is a row of `theta`. Its K local steps run in one go while its weights and moments stay
// in the L2 cache, which is where the speed comes from: they are read once per call, not per step.
//
// Three decisions shape everything below.
//
// 1. The 16 samples of a batch are the lanes of a vector: an activation is [feature][16], and a
//    product with a weight is a fused multiply-add with that weight broadcast. Larger batches are
//    several groups of 16, in smaller ones the spare lanes have weight 0.
// 2. A matrix is stored in panels of 16 columns, [panel][row][16]. Neighbouring rows are then a
//    constant 64 bytes apart, so a tile of 25 rows needs one pointer, and products with the matrix
//    and its transpose both read memory nearly in order. Biases and slopes are further columns
//    (or, in the LSTM, rows) of the matrix whose outputs they belong to, so that a model
//    consists only of matrices and the optimiser handles a single form.
// 3. The gradient of a matrix is formed in small tiles that go to the optimiser at once; it never
//    exists as a whole.
//
// It is compiled once per instruction set (see compile.py); only the width W of a vector and the
// size of tiles differ. Nothing depends on addresses, threads or other rows, so that a row's result
// is the same to the bit however it was scheduled. Another build may round differently.
//
// This file holds the threads and the entry points. The headers are, from the bottom: vectors.h,
// products.h, model.h, lstm.h, mlp.h, group.h, optimisers.h, training.h and prediction.h;
// and draws.h, which draws the minibatches.

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "draws.h"
#include "prediction.h"
#include "training.h"

namespace {

// While an object exists, subnormal numbers become zero: some processors are very slow with them,
// and decaying moments pass through them.
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
int run(const PlflNetwork& network, const PlflWindows& windows, const Job& job, Body body) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  try {
    const Layout layout(network);
    const auto work = [&] {
      const FlushDenormals flush;
      try {
        const auto worker = std::make_unique<Worker>(layout, windows, job);
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
      // There are fewer threads than wanted; they do all rows.
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

// Number of parameters of a model, for the caller to check; -1 when memory ran out.
int plfl_parameters(const PlflNetwork* network) {
  try {
    return int(Layout(*network).place.size());
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

// Take `steps` local steps with every row; 0 on success, 1 when memory ran out.
int plfl_train(const PlflNetwork* network, const PlflWindows* windows, const PlflTraining* job) {
  return run<Trainer>(*network, *windows, *job,
                      [](Trainer& trainer, std::int64_t row) { trainer.train(row); });
}

// Forecast every window of every row; 0 on success, 1 when memory ran out.
int plfl_predict(const PlflNetwork* network, const PlflWindows* windows,
                 const PlflPrediction* job) {
  return run<Predictor>(*network, *windows, *job,
                        [](Predictor& predictor, std::int64_t row) { predictor.predict(row); });
}

// Compute the features of every row for its minibatches; 0 on success, 1 when memory ran out.
int plfl_features(const PlflNetwork* network, const PlflWindows* windows, const PlflReading* job) {
  return run<Reader>(*network, *windows, *job,
                     [](Reader& reader, std::int64_t row) { reader.read(row); });
}

// Draw `steps` minibatches of `size` out of `windows` windows; `next` draws 32 bits from the
// `state` of a bit generator of numpy. `is_drawn` [windows] is zero before and after.
void plfl_draw(void* state, std::uint32_t (*next)(void*), std::int64_t windows, std::int64_t steps,
               std::int64_t size, std::uint8_t* is_drawn, std::int64_t* drawn) {
  for (std::int64_t k = 0; k < steps; ++k)
    draw({state, next}, std::uint32_t(windows), std::uint32_t(size), is_drawn, drawn + k * size);
}
}
