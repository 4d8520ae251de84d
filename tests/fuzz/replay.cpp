// SPDX-License-Identifier: Apache-2.0
// Runs every fuzz target on the files that are kept for it, without libFuzzer: fuzz_replay FOLDER. The seeds of a
// target lie in FOLDER/NAME, inputs that once broke it in FOLDER/broke/NAME; each is also cut in half, and one byte of
// it changed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#define MW_TARGETS(MW_TARGET) \
  MW_TARGET(problem_file)     \
  MW_TARGET(schedule_csv)     \
  MW_TARGET(onnx_file)        \
  MW_TARGET(torch_export)     \
  MW_TARGET(hlo_text)         \
  MW_TARGET(mlir_text)        \
  MW_TARGET(trace_file)       \
  MW_TARGET(launch_shell)     \
  MW_TARGET(launch_config)    \
  MW_TARGET(launch_file)      \
  MW_TARGET(json_file)        \
  MW_TARGET(table_file)       \
  MW_TARGET(option_text)      \
  MW_TARGET(database)         \
  MW_TARGET(weight_file)      \
  MW_TARGET(command_line)

// The build gives each target's function its own name.
#define MW_DECLARE(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
MW_TARGETS(MW_DECLARE)

namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};
#define MW_ROW(name) {#name, fuzz_##name},
constexpr Target kTargets[] = {MW_TARGETS(MW_ROW)};

bool is_calm(const Target& target, const std::string& bytes, const std::string& what) {
  try {
    (void)target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::printf("%s: %s: %s\n", target.name, what.c_str(), error.what());
    return false;
  }
}

// How many inputs were not answered as they should be; `tried` counts all.
int replay(const Target& target, const fs::path& folder, int& tried) {
  int wrong = 0;
  if (!fs::is_directory(folder)) return 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::string changed = bytes;
    if (!changed.empty()) changed[changed.size() / 3] ^= 0x15;
    for (const std::string& input : {bytes, bytes.substr(0, bytes.size() / 2), changed}) {
      ++tried;
      wrong += is_calm(target, input, entry.path().string()) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::puts("fuzz_replay FOLDER");
    return 2;
  }
  int wrong = 0;
  for (const Target& target : kTargets) {
    int tried = 0;
    wrong += replay(target, fs::path(argv[1]) / target.name, tried);
    if (tried == 0) {
      std::printf("%s: it has no seeds\n", target.name);
      ++wrong;
    }
    wrong += replay(target, fs::path(argv[1]) / "broke" / target.name, tried);
  }
  return wrong == 0 ? 0 : 1;
}
