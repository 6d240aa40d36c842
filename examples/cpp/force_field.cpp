// Molecular dynamics with a force field of JAX: force_field MODEL ATOMS STEPS TIMESTEP.
//
// force_field.py writes MODEL and ATOMS: f64 sides of the box [3], positions [n, 3], velocities [n, 3].
// The mass is 1. Prints of each 100th step: number, potential and total energy, pressure, neighbours.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

constexpr double CUTOFF = 1.6, SKIN = 0.3;

// Distance along a side of the box, to the nearest image.
static double nearest(double distance, double side) {
  return distance - side * std::round(distance / side);
}

struct ForceField {
  double energy = 0;
  std::vector<double> forces, virial = std::vector<double>(9);
  std::size_t length = 0;  // of the list: neighbours of each atom

  ForceField(const char* path, std::vector<double>& box, std::vector<double>& positions)
      : forces(positions.size()), box_(box), positions_(positions), session_(env_, path, options()),
        binding_(session_) {
    binding_.BindOutput("energy", value(&energy, {}));
    binding_.BindOutput("forces", value(forces.data(), {count(), 3}));
    binding_.BindOutput("virial", value(virial.data(), {3, 3}));
    binding_.BindInput("box", value(box_.data(), {3}));
    binding_.BindInput("positions", value(positions_.data(), {count(), 3}));
  }

  void compute() {
    if (is_old()) list();
    session_.Run(Ort::RunOptions(), binding_);
  }

 private:
  static Ort::SessionOptions options() {
    Ort::SessionOptions found;
    found.SetIntraOpNumThreads(1);
    return found;
  }
  std::int64_t count() const { return static_cast<std::int64_t>(positions_.size() / 3); }
  template <typename T>
  static Ort::Value value(T* data, const std::vector<std::int64_t>& shape) {
    auto cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    auto product = std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
    return Ort::Value::CreateTensor<T>(cpu, data, product, shape.data(), shape.size());
  }

  // An atom has moved by half of the skin: another one may have come into the cutoff.
  bool is_old() const {
    if (listed_.empty()) return true;
    double most = 0;
    for (std::size_t i = 0; i < positions_.size(); i += 3)
      most = std::max(most, std::hypot(positions_[i] - listed_[i], positions_[i + 1] - listed_[i + 1],
                                       positions_[i + 2] - listed_[i + 2]));
    return most > SKIN / 2;
  }

  // Lists the neighbours of each atom, padded with its own index to the same length.
  void list() {
    const std::int64_t n = count();
    std::vector<std::vector<std::int32_t>> found(n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double square = 0;
        for (int a = 0; a < 3; ++a)
          square += std::pow(nearest(positions_[3 * j + a] - positions_[3 * i + a], box_[a]), 2);
        if (i != j && square < std::pow(CUTOFF + SKIN, 2)) found[i].push_back(j);
      }
    length = 0;
    for (auto& row : found) length = std::max(length, row.size());
    neighbours_.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      found[i].resize(length, static_cast<std::int32_t>(i));
      neighbours_.insert(neighbours_.end(), found[i].begin(), found[i].end());
    }
    listed_ = positions_;
    binding_.BindInput("neighbours", value(neighbours_.data(), {n, std::int64_t(length)}));
  }

  std::vector<double>&box_, &positions_;
  std::vector<double> listed_;  // the positions when the list was made
  std::vector<std::int32_t> neighbours_;
  Ort::Env env_{ORT_LOGGING_LEVEL_ERROR};
  Ort::Session session_;
  Ort::IoBinding binding_;
};

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: force_field MODEL ATOMS STEPS TIMESTEP");
  std::ifstream file(argv[2], std::ios::binary | std::ios::ate);
  const std::size_t size = (static_cast<std::size_t>(file.tellg()) / sizeof(double) - 3) / 2;
  std::vector<double> box(3), x(size), v(size);
  file.seekg(0);
  for (auto* part : {&box, &x, &v}) file.read(reinterpret_cast<char*>(part->data()), part->size() * 8);
  ForceField field(argv[1], box, x);
  field.compute();
  const double step = std::stod(argv[4]), volume = box[0] * box[1] * box[2];
  for (int i = 0; i <= std::stoi(argv[3]); ++i) {
    if (i % 100 == 0) {
      const double twice = std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
      const double trace = field.virial[0] + field.virial[4] + field.virial[8];
      std::printf("%d %.17g %.17g %.17g %zu\n", i, field.energy, field.energy + twice / 2,
                  (twice + trace) / (3 * volume), field.length);
    }
    for (std::size_t j = 0; j < size; ++j) x[j] += step * (v[j] += step / 2 * field.forces[j]);
    field.compute();
    for (std::size_t j = 0; j < size; ++j) v[j] += step / 2 * field.forces[j];
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
