// A loop of fixed rate on Linux: real_time MODEL [STEPS]. Replace read and write by your robot.
//
// The memory is locked, the thread has a priority of SCHED_FIFO where that is allowed, and sleeps
// until the next absolute time, so that errors do not add up. A late step keeps the last target; ten
// late ones in a row stop the loop.
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <cstdio>

#include "hlo2onnx_policy.hpp"

static void read(float* values, std::size_t count) { std::fill(values, values + count, 0.1f); }
static void write(const float* values, std::size_t count) { (void)values, (void)count; }

static std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t(1000000000) + time.tv_nsec;
}

int main(int count, char** arguments) try {
  if (count < 2) throw std::runtime_error("usage: real_time MODEL [STEPS]");
  hlo2onnx::Policy policy(arguments[1]);
  const std::vector<double> given = policy.numbers("control_period");
  const auto period = static_cast<std::int64_t>(1e9 * (given.empty() ? 0.02 : given[0]));
  std::vector<std::pair<float*, std::size_t>> observations;
  for (auto& [name, array] : policy.inputs())
    if (!policy.is_memory(name))
      observations.emplace_back(policy.observation<float>(name), array.size);
  const float* action = policy.action<float>("action");
  const std::size_t size = policy.outputs().at("action").size;

  sched_param priority{};
  priority.sched_priority = 80;
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) std::perror("mlockall");
  if (sched_setscheduler(0, SCHED_FIFO, &priority)) std::perror("SCHED_FIFO");
  for (int i = 0; i < 100; ++i) policy.step();  // pages, caches, and the arena of ONNX Runtime
  policy.reset();

  int late = 0, in_a_row = 0;
  std::int64_t next = now(), worst = 0;
  const int steps = count > 2 ? std::stoi(arguments[2]) : 500;
  for (int i = 0; i < steps && in_a_row < 10; ++i) {
    for (auto& [values, length] : observations) read(values, length);
    policy.step();
    next += period;
    const std::int64_t slack = next - now();
    worst = std::max(worst, period - slack);
    in_a_row = slack < 0 ? in_a_row + 1 : 0;
    late += slack < 0;
    if (slack >= 0) write(action, size);
    const timespec until{next / 1000000000, next % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
  std::printf("%d late steps; the latest ended %.1f us after its time\n", late, double(worst) / 1e3);
  return in_a_row == 10;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
