// Runs a policy that hlo2onnx.policy.translate has written. C++17 and ONNX Runtime only.
//
//   hlo2onnx::Policy policy("walk.onnx", {"hip", "knee", "foot"});
//   float* joints = policy.observation<float>("observation/joint_pos");
//   const float* torque = policy.action<float>("action");
//   while (running) { read(joints); policy.step(); apply(torque); }
//
// The constructor makes all arrays; their pointers stay valid. One thread at a time may use a policy.
// Errors are std::runtime_error, or Ort::Exception of ONNX Runtime.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hlo2onnx {

namespace detail {

// The texts and numbers of a JSON value in their order, keys included: {"a": [1, 2]} is a, 1, 2.
inline std::vector<std::string> scalars(const std::string& json) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (std::strchr(" \t\r\n,:[]{}", json[i])) continue;
    std::string item;
    if (json[i] != '"') {
      const std::size_t end = std::min(json.find_first_of(" \t\r\n,:[]{}", i), json.size());
      found.push_back(json.substr(i, end - i));
      i = end - 1;
      continue;
    }
    for (++i; i < json.size() && json[i] != '"'; ++i) {
      if (json[i] == '\\') {
        const char* escapes = "bfnrt";
        const char* at = std::strchr(escapes, json[++i]);
        if (json[i] == 'u') throw std::runtime_error("write this JSON without \\u: " + json);
        item += at ? "\b\f\n\r\t"[at - escapes] : json[i];
      } else {
        item += json[i];
      }
    }
    found.push_back(item);
  }
  return found;
}

inline std::vector<unsigned char> base64(const std::string& text) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> found;
  unsigned bits = 0, count = 0;
  for (char digit : text) {
    if (digit == '=') break;
    const char* at = std::strchr(digits, digit);
    if (!at) throw std::runtime_error("the memory in the model is damaged");
    bits = bits << 6 | static_cast<unsigned>(at - digits);
    if ((count += 6) >= 8) found.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
  }
  return found;
}

inline std::size_t width(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return 8;
    default:
      throw std::runtime_error("an input or output has a type that the runner does not know");
  }
}

}  // namespace detail

class Policy {
 public:
  // An array: its memory is aligned as malloc aligns it.
  struct Array {
    ONNXTensorElementDataType type;
    std::vector<std::int64_t> shape;
    std::size_t size = 1;  // count of elements
    std::vector<unsigned char> bytes;
    Ort::Value value{nullptr};
  };

  // joints: the names of the robot's joints in its order; none to compare nothing.
  explicit Policy(const std::string& path, const std::vector<std::string>& joints = {},
                  int threads = 1)
      : session_(nullptr) {
    Ort::SessionOptions options;  // as hlo2onnx.runtime has them
    options.SetIntraOpNumThreads(threads);
    options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    options.AddConfigEntry("session.x64quantprecision", "1");
    options.AddConfigEntry("session.qdq_matmulnbits_accuracy_level", "1");
    session_ = Ort::Session(env_, std::filesystem::path(path).c_str(), options);
    read_metadata();
    for (std::size_t i = 0; i < session_.GetInputCount(); ++i) {
      const std::string name = session_.GetInputNameAllocated(i, allocator_).get();
      add(inputs_[name], name, session_.GetInputTypeInfo(i));
    }
    for (std::size_t i = 0; i < session_.GetOutputCount(); ++i) {
      const std::string name = session_.GetOutputNameAllocated(i, allocator_).get();
      add(outputs_[name], name, session_.GetOutputTypeInfo(i));
    }
    read_memory();
    check_robot(joints);
    for (int turn = 0; turn < 2; ++turn) bind(turn);
    reset();
  }

  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Sets the memory to its initial value.
  void reset() {
    turn_ = 0;
    for (auto& [name, part] : memory_)
      std::copy(part.initial.begin(), part.initial.end(), inputs_.at(name).bytes.begin());
  }

  // Runs the policy once: reads the observation, writes the action, keeps the memory.
  void step() {
    session_.Run(run_options_, bindings_[turn_]);
    turn_ = 1 - turn_;
  }

  // Where to write an entry of the observation, in C order.
  template <typename T>
  T* observation(const std::string& name) {
    if (memory_.count(name)) throw std::runtime_error(name + " is a memory");
    return data<T>(inputs_, name);
  }

  // Where each step writes an entry of the action.
  template <typename T>
  const T* action(const std::string& name) {
    for (auto& [_, part] : memory_)
      if (part.output == name) throw std::runtime_error(name + " is a memory");
    return data<T>(outputs_, name);
  }

  // Inputs and outputs by name, to read their shapes and types.
  const std::map<std::string, Array>& inputs() const { return inputs_; }
  const std::map<std::string, Array>& outputs() const { return outputs_; }
  bool is_memory(const std::string& input) const { return memory_.count(input) != 0; }

  // Metadata: a text, a list of texts, a list of numbers. Empty if the model has none of this name.
  std::string metadata(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? "" : found->second;
  }
  std::vector<std::string> names(const std::string& key) const {
    return detail::scalars(metadata(key));
  }
  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> found;
    for (const std::string& text : names(key)) {
      char* end = nullptr;
      found.push_back(std::strtod(text.c_str(), &end));
      if (text.empty() || *end) throw std::runtime_error(key + ": " + text + " is not a number");
    }
    return found;
  }

  // The positions of the policy's joints among those of the robot.
  const std::vector<std::size_t>& joint_order() const { return joint_order_; }

 private:
  struct Part {
    std::string output;
    std::vector<unsigned char> initial;
  };

  void read_metadata() {
    Ort::ModelMetadata all = session_.GetModelMetadata();
    for (const auto& key : all.GetCustomMetadataMapKeysAllocated(allocator_))
      metadata_[key.get()] = all.LookupCustomMetadataMapAllocated(key.get(), allocator_).get();
    if (!metadata_.count("hlo2onnx.memory"))
      throw std::runtime_error("not a policy: write it with hlo2onnx.policy.translate");
  }

  void add(Array& array, const std::string& name, const Ort::TypeInfo& info) {
    auto tensor = info.GetTensorTypeAndShapeInfo();
    array.type = tensor.GetElementType();
    array.shape = tensor.GetShape();
    for (std::int64_t extent : array.shape) {
      if (extent < 0) throw std::runtime_error(name + " has a free dimension");
      array.size *= static_cast<std::size_t>(extent);
    }
    array.bytes.resize(array.size * detail::width(array.type));
    auto cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    array.value = Ort::Value::CreateTensor(cpu, array.bytes.data(), array.bytes.size(),
                                           array.shape.data(), array.shape.size(), array.type);
  }

  void read_memory() {
    const std::vector<std::string> items = names("hlo2onnx.memory");
    for (std::size_t i = 0; i + 2 < items.size(); i += 3) {
      const auto input = inputs_.find(items[i]), output = outputs_.find(items[i + 1]);
      if (input == inputs_.end() || output == outputs_.end())
        throw std::runtime_error("the model has no " + items[i] + " and " + items[i + 1]);
      Part part{items[i + 1], detail::base64(items[i + 2])};
      if (part.initial.empty()) part.initial.resize(input->second.bytes.size());
      if (part.initial.size() != input->second.bytes.size() ||
          output->second.shape != input->second.shape || output->second.type != input->second.type)
        throw std::runtime_error("the memory " + items[i] + " has another size");
      memory_[items[i]] = part;
    }
  }

  void check_robot(const std::vector<std::string>& joints) {
    const std::vector<std::string> known = names("joint_names");
    if (std::set<std::string>(known.begin(), known.end()).size() != known.size())
      throw std::runtime_error("a joint is twice in joint_names");
    for (const char* key : {"default_joint_pos", "joint_stiffness", "joint_damping"})
      if (metadata_.count(key) && numbers(key).size() != known.size())
        throw std::runtime_error(std::string(key) + " has not a number for each joint");
    if (metadata_.count("control_period") &&
        (numbers("control_period").size() != 1 || !(numbers("control_period")[0] > 0)))
      throw std::runtime_error("control_period is not a time in seconds");
    const std::size_t scales = names("action_scale").size();
    bool fits = scales < 2;
    for (auto& [_, array] : outputs_)
      fits = fits || (!array.shape.empty() && array.shape.back() == std::int64_t(scales));
    if (!fits) throw std::runtime_error("action_scale has not a number for each of the action");
    const std::vector<std::string> ranges = names("observation_ranges");
    for (std::size_t i = 0; i < ranges.size(); i += 3)
      if (!inputs_.count(ranges[i])) throw std::runtime_error("there is no input " + ranges[i]);
    if (joints.empty()) return;
    if (known.empty()) throw std::runtime_error("the model has no joint_names");
    for (const std::string& name : known) {
      const auto found = std::find(joints.begin(), joints.end(), name);
      if (found == joints.end()) throw std::runtime_error("the robot has no joint " + name);
      joint_order_.push_back(static_cast<std::size_t>(found - joints.begin()));
    }
  }

  // In odd turns, the memory goes from the outputs back to the inputs.
  void bind(int turn) {
    Ort::IoBinding& binding = bindings_.emplace_back(session_);
    for (auto& [name, array] : inputs_) {
      const auto part = memory_.find(name);
      const bool swapped = turn && part != memory_.end();
      binding.BindInput(name.c_str(), swapped ? outputs_.at(part->second.output).value : array.value);
    }
    std::map<std::string, std::string> sources;
    for (auto& [name, part] : memory_) sources[part.output] = name;
    for (auto& [name, array] : outputs_) {
      const auto source = sources.find(name);
      const bool swapped = turn && source != sources.end();
      binding.BindOutput(name.c_str(), swapped ? inputs_.at(source->second).value : array.value);
    }
  }

  template <typename T>
  T* data(std::map<std::string, Array>& arrays, const std::string& name) {
    const auto found = arrays.find(name);
    if (found == arrays.end()) throw std::runtime_error("the model has no " + name);
    if (found->second.type != Ort::TypeToTensorType<T>::type)
      throw std::runtime_error(name + " has another type");
    return reinterpret_cast<T*>(found->second.bytes.data());
  }

  Ort::Env env_{ORT_LOGGING_LEVEL_ERROR};
  Ort::Session session_;
  Ort::AllocatorWithDefaultOptions allocator_;
  Ort::RunOptions run_options_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Array> inputs_, outputs_;
  std::map<std::string, Part> memory_;  // by input
  std::vector<std::size_t> joint_order_;
  std::vector<Ort::IoBinding> bindings_;
  int turn_ = 0;
};

}  // namespace hlo2onnx
