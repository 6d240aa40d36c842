// Runs a policy for a simulator in another process: pipe MODEL < observations > actions.
//
// A step reads the f32 numbers of the whole observation, in the order of the inputs' names, and writes
// those of the whole action in the order of the outputs' names. It ends when the input ends.
#include <cstdio>

#include "hlo2onnx_policy.hpp"

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("usage: pipe MODEL < observations > actions");
  hlo2onnx::Policy policy(arguments[1]);
  std::vector<std::pair<float*, std::size_t>> observations;
  for (auto& [name, array] : policy.inputs())
    if (!policy.is_memory(name))
      observations.emplace_back(policy.observation<float>(name), array.size);
  std::vector<std::pair<const float*, std::size_t>> actions;
  for (auto& [name, array] : policy.outputs())
    if (name.rfind("action", 0) == 0) actions.emplace_back(policy.action<float>(name), array.size);
  std::setvbuf(stdin, nullptr, _IONBF, 0);
  while (true) {
    for (auto& [to, size] : observations)
      if (std::fread(to, sizeof(float), size, stdin) != size) return 0;
    policy.step();
    for (auto& [from, size] : actions) std::fwrite(from, sizeof(float), size, stdout);
    std::fflush(stdout);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
