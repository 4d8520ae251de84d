// SPDX-License-Identifier: Apache-2.0
#include "core/plan/software_name.h"

#include <string_view>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::string_view kEightBitProducts = "+fp8", kNarrowStates = "+16-bit-states",
                           kSixteenBitMoments = "+16-bit-moments", kEightBitMoments = "+8-bit-moments",
                           kFused = "+fused-attention", kUnfused = "+unfused-attention",
                           kHostDispatch = "+host-dispatch=", kGatherDispatch = "+gather-dispatch=",
                           kLossChunks = "+loss-chunks=";

// Whether the text ended with this, which is cut off.
bool cut_end(std::string& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.resize(text.size() - end.size());
  return true;
}

// The text behind the last `mark`, which is cut off with it.
std::optional<std::string> cut_value(std::string& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string::npos) return std::nullopt;
  std::string value = text.substr(at + mark.size());
  text.resize(at);
  return value;
}

}  // namespace

void set_dispatch(SoftwareSetup& setup, TokenDispatch dispatch, int experts_per_token) {
  setup.dispatch = dispatch;
  setup.experts_per_token = dispatch == TokenDispatch::ToExperts ? 0 : experts_per_token;
}

// From the end on, in the order in which to_text writes them.
SoftwareName software_name_from_text(const std::string& text) {
  SoftwareName name{text};
  SoftwareSetup& setup = name.setup;
  const std::string place = fmt::format("software '{}'", text);
  if (const auto chunks = cut_value(name.profile, kLossChunks))
    setup.loss_chunks = loss_chunks_from_text(*chunks, place);
  for (const auto& [mark, dispatch] :
       {std::pair{kGatherDispatch, TokenDispatch::ToAll}, {kHostDispatch, TokenDispatch::ToHosts}})
    if (const auto experts = cut_value(name.profile, mark))
      set_dispatch(setup, dispatch, static_cast<int>(parse_integer(*experts, place, 1, 1L << 20)));
  if (cut_end(name.profile, kUnfused)) setup.fused_attention = false;
  if (cut_end(name.profile, kFused)) setup.fused_attention = true;
  if (cut_end(name.profile, kEightBitMoments)) setup.moment_bits = 8;
  if (cut_end(name.profile, kSixteenBitMoments)) setup.moment_bits = 16;
  setup.narrow_states = cut_end(name.profile, kNarrowStates);
  setup.eight_bit_products = cut_end(name.profile, kEightBitProducts);
  return name;
}

std::string to_text(const SoftwareName& name) {
  std::string text = name.profile;
  const SoftwareSetup& setup = name.setup;
  if (setup.eight_bit_products) text += kEightBitProducts;
  if (setup.narrow_states) text += kNarrowStates;
  if (setup.moment_bits < 32) text += setup.moment_bits == 16 ? kSixteenBitMoments : kEightBitMoments;
  if (setup.fused_attention) text += *setup.fused_attention ? kFused : kUnfused;
  if (setup.dispatch != TokenDispatch::ToExperts)
    text.append(setup.dispatch == TokenDispatch::ToHosts ? kHostDispatch : kGatherDispatch)
        .append(std::to_string(setup.experts_per_token));
  if (setup.loss_chunks == kFittingLossChunks) return text.append(kLossChunks).append("auto");
  if (setup.loss_chunks != 1) text.append(kLossChunks).append(std::to_string(setup.loss_chunks));
  return text;
}

int loss_chunks_from_text(const std::string& text, const std::string& place) {
  if (text == "auto") return kFittingLossChunks;
  require(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos,
          "{}: '{}' is no number of chunks; give 1 for the whole loss, more for chunks, or auto.", place, text);
  return static_cast<int>(parse_integer(text, place, 1, 1L << 20));
}

}  // namespace meshwright
