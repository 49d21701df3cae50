// A fuzz target without a fuzzer: runs it on the recordings of tests/golden and on mutations of
// them, always the same ones. Catches what a fuzzer would find at once, with any compiler.
//
//   NAME_replay [COUNT]        the seeds, then COUNT mutations (default 20000)
//   NAME_replay --only N       the Nth mutation alone, to look at a failure
//   NAME_replay --write DIR    writes the seeds as files: the corpus of the real fuzzer

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

using verbena::fuzz::Bytes;

std::uint64_t running = 0;
const char* program = "";

/// Says what to run again; then the signal has its way.
extern "C" void tell(int signal) {
  std::fprintf(stderr, "replay: %s --only %llu\n", program,
               static_cast<unsigned long long>(running));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<Bytes> all_seeds() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{VERBENA_GOLDEN_DIR}) {
    if (entry.path().extension() == ".pcap") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<verbena::fuzz::Recording> recordings;
  for (const auto& file : files) {
    auto recording = verbena::test::read_pcap_file(file.string());
    if (!recording) {
      std::fprintf(stderr, "%s\n", recording.error().message.c_str());
      std::exit(1);
    }
    recordings.push_back(*std::move(recording));
  }
  return verbena::fuzz::seeds_of(recordings);
}

class Mutator {
 public:
  Mutator(const std::vector<Bytes>& seeds, std::uint64_t n) : seeds_{seeds}, random_{n} {}

  Bytes make() {
    Bytes b = some_seed();
    const std::size_t changes = 1 + pick(8);
    for (std::size_t i = 0; i < changes; ++i) {
      if (pick(3) == 0 || !verbena::fuzz::change(b, random_)) change(b);
    }
    return b;
  }

 private:
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  const Bytes& some_seed() { return seeds_[pick(seeds_.size())]; }
  static std::ptrdiff_t offset(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }

  void change(Bytes& b) {
    constexpr std::array<std::uint8_t, 6> kSpecial{0, 1, 0x7f, 0x80, 0xfe, 0xff};
    if (b.empty()) b.push_back(0);
    const std::size_t at = pick(b.size());
    const std::size_t count = std::min(b.size() - at, std::size_t{1} << pick(8));
    switch (pick(7)) {
      case 0:
        b[at] ^= static_cast<std::uint8_t>(1u << pick(8));
        break;
      case 1:
        b[at] = kSpecial[pick(kSpecial.size())];
        break;
      case 2:
        b[at] = static_cast<std::uint8_t>(random_());
        break;
      case 3:
        b.erase(b.begin() + offset(at), b.begin() + offset(at + count));
        break;
      case 4: {
        const Bytes piece(b.begin() + offset(at), b.begin() + offset(at + count));
        b.insert(b.begin() + offset(pick(b.size())), piece.begin(), piece.end());
        break;
      }
      case 5: {
        const Bytes& other = some_seed();
        const std::size_t from = pick(other.size());
        b.resize(at);
        b.insert(b.end(), other.begin() + offset(from), other.end());
        break;
      }
      default:
        b.resize(at);
        break;
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_;
};

void run(const Bytes& input) { (void)LLVMFuzzerTestOneInput(input.data(), input.size()); }

void write(const std::vector<Bytes>& seeds, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file{folder / std::to_string(i), std::ios::binary};
    for (const std::uint8_t byte : seeds[i]) file.put(static_cast<char>(byte));
  }
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  const std::vector<Bytes> seeds = all_seeds();
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--write" && argc == 3) {
    write(seeds, argv[2]);
    return 0;
  }
  std::signal(SIGABRT, tell);
  std::signal(SIGSEGV, tell);
  if (option == "--only" && argc == 3) {
    running = std::strtoull(argv[2], nullptr, 10);
    run(running < seeds.size() ? seeds[running] : Mutator{seeds, running}.make());
    return 0;
  }
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000;
  for (; running < seeds.size() + count; ++running) {
    run(running < seeds.size() ? seeds[running] : Mutator{seeds, running}.make());
  }
  std::printf("%zu seeds and %llu mutations\n", seeds.size(),
              static_cast<unsigned long long>(count));
  return 0;
}
