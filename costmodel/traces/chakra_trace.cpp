// SPDX-License-Identifier: Apache-2.0
// The messages, as far as they are read:
//
//   GlobalMetadata  1 version | 2 attr...
//   Node            1 id | 2 name | 3 type | 4 ctrl_deps... | 7 duration_micros | 8 inputs | 10 attr...
//   IOInfo          1 values | 2 shapes | 3 types       Python's text of lists
//   AttributeProto  1 name | 3.. one value by type: 7, 9, 11, 13: integers; 15, 17: the same, zigzag; 19, 21, 23, 25:
//                   fixed ones; 27 bool; 29 string
#include "costmodel/traces/chakra_trace.h"

#include <charconv>
#include <set>
#include <unordered_map>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/wire.h"
#include "costmodel/traces/torch_ops.h"

namespace meshwright {

namespace {

enum class NodeType { Comp = 4, Collective = 7 };
constexpr std::uint64_t kSend = 5, kReceive = 6;
constexpr int kMaxAround = 64;

// The entries of Python's text of a list, "[[4, 8], 'a', True]"; of none where it is no list.
std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') return entries;
  list = list.substr(1, list.size() - 2);
  const auto add = [&](std::size_t begin, std::size_t end) {
    while (begin < end && list[begin] == ' ') ++begin;
    entries.push_back(list.substr(begin, end - begin));
  };
  int depth = 0;
  char quote = '\0';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth == 0) {
      add(begin, i);
      begin = i + 1;
    }
  }
  if (!list.empty()) add(begin, list.size());
  return entries;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::vector<std::int64_t> sizes_of(std::string_view list) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view entry : entries_of(list)) {
    std::int64_t size = -1;
    (void)std::from_chars(entry.data(), entry.data() + entry.size(), size);
    sizes.push_back(size);
  }
  return sizes;
}

// "Tensor(float)" of a tensor; "GenericList[Tensor(float),...]" of a list; what is no tensor has a type of its own.
TorchOperand operand_of(std::string_view shape, std::string_view type) {
  constexpr std::string_view kTensor = "Tensor(";
  TorchOperand operand{{}, {}, "Scalar"};
  const std::size_t at = type.find(kTensor);
  if (type == "None" || type.empty()) operand.type = "";
  if (at == std::string_view::npos) return operand;
  const std::string_view behind = type.substr(at + kTensor.size());
  operand.type = std::string(behind.substr(0, behind.find(')')));
  if (at == 0)
    operand.dims = sizes_of(shape);
  else
    for (const std::string_view one : entries_of(shape)) operand.list.push_back(sizes_of(one));
  return operand;
}

struct Attribute {
  std::string_view name, text;
  std::uint64_t integer = 0;
};

struct Node {
  std::uint64_t id = 0, type = 0, duration = 0;
  std::string_view name;
  std::vector<std::uint64_t> around;  // by control
  std::string_view values, shapes, types;
  bool on_host = true;
  std::optional<std::uint64_t> comm_type;
  std::uint64_t comm_size = 0;
  std::string group;
};

class ChakraReader {
 public:
  ChakraReader(std::string_view bytes, const std::string& place, int devices_per_host)
      : bytes_(bytes), place_(place), devices_per_host_(devices_per_host) {}

  TraceImport read() {
    read_messages();
    for (const Node& node : nodes_)
      if (!node.on_host) add(node);
    for (const auto& [key, occurrence] : occurrences_)
      rows_.add(occurrence.op, occurrence.nanoseconds, occurrence.kernels);
    return rows_.finish("execution trace of Chakra", "pytorch", place_);
  }

 private:
  void read_messages() {
    std::string_view rest = bytes_;
    for (bool first = true; !rest.empty(); first = false) {
      std::uint64_t length = 0;
      WireReader lengths(rest, place_);
      (void)lengths.next_varint(length);
      rest = lengths.rest();
      require(length <= rest.size(),
              "{}: the file is damaged, a message of {} bytes is longer than the {} left; export or download it again.",
              place_, length, rest.size());
      if (!first) read_node(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) by_id_.emplace(nodes_[i].id, i);
  }

  [[nodiscard]] Attribute attribute_of(std::string_view bytes) const {
    WireReader fields(bytes, place_);
    Attribute read;
    for (WireField field{}; fields.next(field);) {
      if (field.number == 1) read.name = field.bytes;
      const bool zigzag = field.number == 15 || field.number == 17;
      if (field.number > 6 && field.type != WireField::Type::Block)
        read.integer = zigzag ? field.value >> 1 ^ (~(field.value & 1) + 1) : field.value;
      if (field.number == 29) read.text = field.bytes;
    }
    return read;
  }

  void read_node(std::string_view bytes) {
    WireReader fields(bytes, place_);
    Node node;
    for (WireField field{}; fields.next(field);) {
      const bool varint = field.type == WireField::Type::Varint;
      if (field.number == 1 && varint) node.id = field.value;
      if (field.number == 2) node.name = field.bytes;
      if (field.number == 3 && varint) node.type = field.value;
      if (field.number == 4) add_dependencies(field, node);
      if (field.number == 7 && varint) node.duration = field.value;
      if (field.number == 8) read_inputs(field.bytes, node);
      if (field.number == 10) read_attribute(attribute_of(field.bytes), node);
    }
    if (node.name.find("process_group:init") != std::string_view::npos) read_groups(node.values);
    nodes_.push_back(std::move(node));
  }
  void add_dependencies(const WireField& field, Node& node) const {
    if (field.type == WireField::Type::Varint) node.around.push_back(field.value);
    WireReader packed(field.bytes, place_);
    for (std::uint64_t id = 0; packed.next_varint(id);) node.around.push_back(id);
  }
  void read_inputs(std::string_view bytes, Node& node) const {
    WireReader fields(bytes, place_);
    for (WireField field{}; fields.next(field);) {
      if (field.number == 1) node.values = field.bytes;
      if (field.number == 2) node.shapes = field.bytes;
      if (field.number == 3) node.types = field.bytes;
    }
  }
  static void read_attribute(const Attribute& attribute, Node& node) {
    if (attribute.name == "is_cpu_op") node.on_host = attribute.integer != 0;
    if (attribute.name == "comm_type") node.comm_type = attribute.integer;
    if (attribute.name == "comm_size") node.comm_size = attribute.integer;
    if (attribute.name == "pg_name") node.group = attribute.text;
  }

  // JSON inside of Python's list: ['[{"pg_name": "0", "ranks": [0, 1], "group_size": 2}]'].
  void read_groups(std::string_view values) {
    const std::size_t begin = values.find("[{"), end = values.rfind("}]");
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return;
    std::string text(values.substr(begin, end + 2 - begin));
    for (std::size_t at = text.find("\\'"); at != std::string::npos; at = text.find("\\'", at)) text.erase(at, 1);
    if (std::count(text.begin(), text.end(), '[') > 1 << 20) return;
    const Json groups = parse_json(text, place_ + ": process groups");
    if (!groups.is_array()) return;
    for (const Json& group : groups) {
      if (!group.is_object()) continue;
      const auto name = group.find("pg_name"), size = group.find("group_size"), ranks = group.find("ranks");
      if (name == group.end() || size == group.end() || !name->is_string() || !size->is_number_integer()) continue;
      Group read{size->get<std::int64_t>(), 0};
      std::set<std::int64_t> hosts;
      if (ranks != group.end() && ranks->is_array())
        for (const Json& rank : *ranks)
          if (rank.is_number_integer()) hosts.insert(rank.get<std::int64_t>() / devices_per_host_);
      // A list without ranks means all.
      read.hosts = hosts.empty() ? (read.ranks + devices_per_host_ - 1) / devices_per_host_
                                 : static_cast<std::int64_t>(hosts.size());
      groups_[name->get<std::string>()] = read;
    }
  }

  void add(const Node& node) {
    constexpr std::uint64_t kLongestNode = 3600ull * 1000000;
    require(node.duration <= kLongestNode,
            "{}: node {}: a duration of {} microseconds is none that a kernel takes; check that the times are in "
            "microseconds.",
            place_, node.id, node.duration);
    const auto nanoseconds = static_cast<std::int64_t>(1000 * node.duration);
    if (node.type == kSend || node.type == kReceive) return rows_.leave_out("messages between ranks", nanoseconds);
    if (node.type == static_cast<std::uint64_t>(NodeType::Collective)) return collective(node, nanoseconds);
    if (node.type != static_cast<std::uint64_t>(NodeType::Comp))
      return rows_.leave_out("nodes of other kinds", nanoseconds);
    if (nanoseconds == 0) return rows_.leave_out("nodes of less than a microsecond", 0);
    computation(node, nanoseconds);
  }

  [[nodiscard]] const Node* around(const Node& node) const {
    for (const std::uint64_t id : node.around)
      if (const auto found = by_id_.find(id); found != by_id_.end() && nodes_[found->second].on_host)
        return &nodes_[found->second];
    return nullptr;
  }

  // "aten::mm" of "aten::mm(2)".
  [[nodiscard]] static std::string operator_name(const Node& node) {
    std::string_view name = node.name;
    if (name.ends_with(')'))
      if (const std::size_t open = name.rfind('(');
          open != std::string_view::npos &&
          name.substr(open + 1, name.size() - open - 2).find_first_not_of("0123456789") == std::string_view::npos)
        name = name.substr(0, open);
    return std::string(name);
  }
  [[nodiscard]] static TorchCall call_of(const Node& node, std::string name) {
    TorchCall call;
    call.name = std::move(name);
    const std::vector<std::string_view> shapes = entries_of(node.shapes), types = entries_of(node.types);
    call.has_shapes = !node.types.empty();
    for (std::size_t i = 0; i < types.size(); ++i)
      call.operands.push_back(operand_of(i < shapes.size() ? shapes[i] : "", unquoted(types[i])));
    for (const std::string_view value : entries_of(node.values)) call.values.emplace_back(unquoted(value));
    return call;
  }

  void computation(const Node& node, std::int64_t nanoseconds) {
    if (node.name.starts_with("Memcpy"))
      return rows_.leave_out(
          node.name.find("DtoD") != std::string_view::npos ? "copies within the device" : "copies to and from the host",
          nanoseconds);
    if (node.name.starts_with("Memset")) return rows_.leave_out("memory that is set", nanoseconds);
    const Node* op = around(node);
    const std::string reason = op == nullptr ? "kernels that no recorded operator launched" : operator_name(*op);
    for (int i = 0; op != nullptr && i < kMaxAround; ++i, op = around(*op)) {
      std::string name = operator_name(*op);
      if (!is_known_call(name)) continue;
      const std::optional<CallMeaning> meaning = meaning_of(call_of(*op, std::move(name)), node.name);
      if (!meaning) continue;
      if (const auto* none = std::get_if<NoRow>(&*meaning)) return rows_.leave_out(none->reason, nanoseconds);
      Occurrence& occurrence = occurrences_[{op->id, std::get<TracedOp>(*meaning).work.signature}];
      if (occurrence.kernels == 0) occurrence.op = std::get<TracedOp>(*meaning);
      occurrence.nanoseconds += nanoseconds;
      ++occurrence.kernels;
      return;
    }
    rows_.leave_out(reason.substr(0, 80), nanoseconds);
  }

  // The type of the first tensor that the node is handed.
  [[nodiscard]] static std::string type_of(const Node& node) {
    for (const std::string_view type : entries_of(node.types))
      if (const std::optional<DType> known = torch_dtype(operand_of("", unquoted(type)).type)) return name_of(*known);
    return "f32";
  }

  void collective(const Node& node, std::int64_t nanoseconds) {
    if (!node.comm_type || node.comm_size == 0 || node.comm_size > std::uint64_t{1} << 50)
      return rows_.leave_out("collectives without their size", nanoseconds);
    std::optional<CollectiveKind> kind;
    switch (*node.comm_type) {
      case 0:
        kind = CollectiveKind::AllReduce;
        break;
      case 2:
        kind = CollectiveKind::AllGather;
        break;
      case 6:
        kind = CollectiveKind::AllToAll;
        break;
      case 7:
      case 8:
        kind = CollectiveKind::ReduceScatter;
        break;
      default:
        return rows_.leave_out("collectives that no plan has (broadcast, reduce and the like)", nanoseconds);
    }
    const auto group = groups_.find(node.group);
    if (group == groups_.end() || group->second.ranks < 1 || group->second.ranks > 1 << 20)
      return rows_.leave_out("collectives of an unknown group", nanoseconds);
    if (group->second.ranks == 1) return rows_.leave_out("collectives of one rank", nanoseconds);
    if (nanoseconds == 0) return rows_.leave_out("nodes of less than a microsecond", 0);
    const auto bytes = static_cast<std::int64_t>(node.comm_size);
    rows_.add(TracedCollective{*kind, static_cast<int>(group->second.ranks), static_cast<int>(group->second.hosts),
                               *kind == CollectiveKind::AllGather ? bytes * group->second.ranks : bytes, type_of(node)},
              nanoseconds);
  }

  struct Group {
    std::int64_t ranks = 0, hosts = 0;
  };
  struct Occurrence {
    TracedOp op;
    std::int64_t nanoseconds = 0, kernels = 0;
  };

  std::string_view bytes_;
  const std::string& place_;
  int devices_per_host_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> by_id_;
  std::map<std::string, Group> groups_;
  std::map<std::pair<std::uint64_t, std::string>, Occurrence> occurrences_;
  TraceRows rows_;
};

}  // namespace

// The first message's first field is the version (key 0x0a) or an attribute (0x12); it may have none, before a node
// that begins with its number or its name (0x08, 0x12).
bool is_chakra_trace(std::string_view bytes) {
  const bool empty = bytes.starts_with('\0');
  if (empty) bytes.remove_prefix(1);
  std::uint64_t length = 0;
  std::size_t at = 0;
  for (unsigned shift = 0; at < bytes.size() && shift < 35; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    length |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  if (length < 2 || at >= bytes.size()) return false;
  return bytes[at] == (empty ? '\x08' : '\x0a') || bytes[at] == '\x12';
}

TraceImport read_chakra_trace(std::string_view bytes, const std::string& place, int devices_per_host) {
  MW_CHECK(devices_per_host >= 1, "{} devices per host", devices_per_host);
  return ChakraReader(bytes, place, devices_per_host).read();
}

}  // namespace meshwright
