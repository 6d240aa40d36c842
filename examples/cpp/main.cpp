// Runs a policy: main MODEL [STEPS [FILE [JOINT...]]]. Prints the latency and the last action.
//
// The observations are made up, and the same in each run. FILE receives the f32 actions of all
// steps, so that a test can compare them with those of Python. JOINTs are the joints of the robot.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <new>

#include "hlo2onnx_policy.hpp"

static bool counting = false;
static std::size_t allocations[2] = {0, 0};  // by ONNX Runtime, and by this program

#ifdef __GLIBC__
extern "C" {
extern char __executable_start, etext;
void* __libc_malloc(std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}
static void tally(const void* caller) {
  if (counting) ++allocations[caller >= &__executable_start && caller < &etext];
}
extern "C" void* malloc(std::size_t size) {
  tally(__builtin_return_address(0));
  return __libc_malloc(size);
}
extern "C" int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  tally(__builtin_return_address(0));
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : 12;
}
void* operator new(std::size_t size) {
  tally(__builtin_return_address(0));
  if (void* found = __libc_malloc(size)) return found;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

int main(int count, char** arguments) try {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s MODEL [STEPS [FILE [JOINT...]]]\n", arguments[0]);
    return 2;
  }
  const std::size_t steps = count > 2 ? std::stoul(arguments[2]) : 100000;
  hlo2onnx::Policy policy(arguments[1], {arguments + std::min(count, 4), arguments + count});
  std::vector<std::pair<float*, std::size_t>> observations;
  for (auto& [name, array] : policy.inputs())
    if (!policy.is_memory(name))
      observations.emplace_back(policy.observation<float>(name), array.size);
  std::vector<std::pair<const float*, std::size_t>> actions;
  for (auto& [name, array] : policy.outputs())
    if (name.rfind("action", 0) == 0 && array.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
      actions.emplace_back(policy.action<float>(name), array.size);
  std::ofstream file;
  if (count > 3) file.open(arguments[3], std::ios::binary);

  std::vector<double> microseconds(steps);
  std::uint64_t number = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    for (auto& [values, size] : observations)
      for (std::size_t i = 0; i < size; ++i)
        values[i] = static_cast<float>(static_cast<int>(number++ * 7919 % 2001) - 1000) / 1024;
    counting = step > 0;
    const auto start = std::chrono::steady_clock::now();
    policy.step();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    counting = false;
    microseconds[step] = time.count();
    for (auto& [values, size] : actions)
      if (file.is_open()) file.write(reinterpret_cast<const char*>(values), size * sizeof(float));
  }

  std::sort(microseconds.begin(), microseconds.end());
  std::printf("p50 %.1f us, p99 %.1f us, worst %.1f us of %zu steps\n", microseconds[steps / 2],
              microseconds[steps * 99 / 100], microseconds[steps - 1], steps);
  std::printf("%zu allocations of the runner after the first step, %.1f per step of the runtime\n",
              allocations[1], steps > 1 ? double(allocations[0]) / double(steps - 1) : 0.0);
  for (auto& [values, size] : actions)
    for (std::size_t i = 0; i < size; ++i) std::printf("%s%.6g", i ? " " : "action ", values[i]);
  std::printf("\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
