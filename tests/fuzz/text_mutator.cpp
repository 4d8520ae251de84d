// SPDX-License-Identifier: Apache-2.0
// How libFuzzer changes a program that is given as text. Changed bytes are nearly always refused by the syntax; changed
// words, numbers, lists and lines reach what is behind it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

struct Piece {
  std::size_t begin = 0, size = 0;
};
using Pieces = std::vector<Piece>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '%' ||
         c == '@' || c == '#';
}

template <typename Belongs>
Pieces runs(std::string_view text, Belongs&& belongs) {
  Pieces all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!belongs(text[i])) continue;
    const std::size_t begin = i;
    while (i < text.size() && belongs(text[i])) ++i;
    all.push_back({begin, i - begin});
  }
  return all;
}

// What stands between a bracket and the one that closes it.
Pieces lists(std::string_view text) {
  Pieces all;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::strchr("([{", text[i]) != nullptr && text[i] != '\0') open.push_back(i + 1);
    if (std::strchr(")]}", text[i]) == nullptr || text[i] == '\0' || open.empty()) continue;
    all.push_back({open.back(), i - open.back()});
    open.pop_back();
  }
  return all;
}

class Change {
 public:
  Change(std::string& text, unsigned seed) : text_(text), random_(seed) {}

  void once() {
    switch (below(8)) {
      case 0:
        return number();
      case 1:
        return replace(words(), words());
      case 2:
        return replace(numbers(), numbers());
      case 3:
        return replace(lists(text_), lists(text_));
      case 4:
        return replace(lines(), lines());
      case 5:
        return remove(lines());
      case 6:
        return remove(words());
      default:
        return exchange(lines());
    }
  }

 private:
  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }
  Pieces words() const { return runs(text_, is_word); }
  Pieces numbers() const { return runs(text_, is_digit); }
  Pieces lines() const {
    return runs(text_, [](char c) { return c != '\n'; });
  }
  std::string of(const Piece& piece) const { return text_.substr(piece.begin, piece.size); }

  void number() {
    const Pieces all = numbers();
    if (all.empty()) return;
    const Piece piece = all[below(all.size())];
    const std::uint64_t was = std::strtoull(of(piece).c_str(), nullptr, 10);
    const std::string now[] = {"0",
                               "1",
                               "-1",
                               "2147483648",
                               "9223372036854775807",
                               std::to_string(was + 1),
                               std::to_string(was / 2),
                               std::to_string(was * 2)};
    text_.replace(piece.begin, piece.size, now[below(std::size(now))]);
  }
  void replace(const Pieces& targets, const Pieces& sources) {
    if (targets.empty() || sources.empty()) return;
    const std::string now = of(sources[below(sources.size())]);
    const Piece piece = targets[below(targets.size())];
    text_.replace(piece.begin, piece.size, now);
  }
  void remove(const Pieces& all) {
    if (all.empty()) return;
    const Piece piece = all[below(all.size())];
    text_.erase(piece.begin, piece.size);
  }
  void exchange(const Pieces& all) {
    if (all.size() < 2) return;
    Piece first = all[below(all.size())], second = all[below(all.size())];
    if (second.begin < first.begin) std::swap(first, second);
    if (first.begin == second.begin) return;
    const std::string a = of(first), b = of(second);
    text_.replace(second.begin, second.size, a);
    text_.replace(first.begin, first.size, b);
  }

  std::string& text_;
  std::minstd_rand random_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  Change change(text, seed);
  for (unsigned k = 0; k <= seed % 3; ++k) change.once();
  const std::size_t now = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), now);
  return now;
}
