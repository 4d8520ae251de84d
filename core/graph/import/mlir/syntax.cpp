// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/syntax.h"

#include "core/base/errors.h"
#include "core/graph/import/mlir/reader.h"

namespace meshwright::mlir {

namespace {

constexpr int kMaxRegionDepth = 64;  // of regions within each other

}  // namespace

std::string_view Op::find(std::string_view attribute) const {
  for (const Field& field : attributes)
    if (field.name == attribute) return field.text;
  return {};
}

std::string_view Op::short_name() const {
  const std::size_t point = name.find('.');
  return point == std::string_view::npos ? name : name.substr(point + 1);
}

SyntaxTree Reader::read() {
  while (!scanner_.done()) read_top();
  return std::move(tree_);
}

// "#name = ...", "!name = ...", "{-# ... #-}", or an op.
void Reader::read_top() {
  if (scanner_.at("#") || scanner_.at("!")) return read_alias();
  if (scanner_.accept("{-#")) return scanner_.skip_past("#-}");
  (void)read_op();
}

void Reader::read_alias() {
  const bool type = scanner_.accept("!");
  if (!type) scanner_.expect("#");
  const std::string_view name = scanner_.word();
  scanner_.expect("=");
  if (type) {
    const std::int64_t before = tree_.aliases.types_left;
    xla::Type read = read_type(scanner_, tree_.aliases);
    tree_.aliases.types.insert_or_assign(name, Aliases::NamedType{std::move(read), before - tree_.aliases.types_left});
    return;
  }
  tree_.aliases.attributes.insert_or_assign(name, scanner_.rest_of_op());
}

// module @name attributes {...} { ops }
void Reader::read_module(Op& op) {
  if (scanner_.at("@")) tree_.name = scanner_.symbol();
  if (scanner_.accept_word("attributes")) read_fields_of(op);
  tree_.attributes.insert(tree_.attributes.end(), op.attributes.begin(), op.attributes.end());
  (void)read_region();
}

std::vector<Use> Reader::read_uses(std::string_view open, std::string_view close) {
  std::vector<Use> uses;
  scanner_.expect(open);
  while (!scanner_.accept(close)) {
    uses.push_back(scanner_.use());
    if (!scanner_.accept(",") && !scanner_.at(close)) scanner_.fail(fmt::format("',' or '{}' is expected", close));
  }
  return uses;
}

void Reader::read_arguments(std::vector<Argument>& arguments, std::string_view open, std::string_view close) {
  scanner_.expect(open);
  while (!scanner_.accept(close)) {
    Argument argument;
    // A declaration names only types.
    if (scanner_.at("%")) {
      argument.name = scanner_.use().name;
      scanner_.expect(":");
    }
    argument.type = read_type(scanner_, tree_.aliases);
    if (scanner_.at("{")) argument.attributes = read_fields(scanner_, "{", "}");
    read_location(argument.location);
    arguments.push_back(std::move(argument));
    if (!scanner_.accept(",") && !scanner_.at(close)) scanner_.fail(fmt::format("',' or '{}' is expected", close));
  }
}

Region Reader::read_region() {
  Region region;
  if (++depth_ > kMaxRegionDepth)
    scanner_.fail(fmt::format("at most {} regions within each other are expected", kMaxRegionDepth));
  scanner_.expect("{");
  if (scanner_.accept("^")) {
    (void)scanner_.word();
    if (scanner_.at("(")) read_arguments(region.arguments, "(", ")");
    scanner_.expect(":");
  }
  while (!scanner_.accept("}")) {
    if (scanner_.at("^")) scanner_.fail("one block is expected");
    if (scanner_.done()) scanner_.fail("'}' is expected");
    Op op = read_op();
    // Those are kept elsewhere.
    if (!op.name.empty()) region.ops.push_back(std::move(op));
  }
  --depth_;
  return region;
}

void Reader::read_location(std::string_view& location) {
  if (!scanner_.at("loc(")) return;
  (void)scanner_.word();
  scanner_.expect("(");
  location = scanner_.until(")");
  scanner_.expect(")");
}

Op Reader::read_op() {
  Op op;
  if (--ops_left_ < 0) scanner_.fail("a module of at most a million ops is expected");
  if (scanner_.at("%")) {
    do {
      const Use result = scanner_.use();
      const std::int64_t count = scanner_.accept(":") ? scanner_.integer() : 1;
      if (count < 0) scanner_.fail("a number of results is expected");
      op.results.push_back({result.name, count});
    } while (scanner_.accept(","));
    scanner_.expect("=");
  }
  op.line = scanner_.line();
  if (scanner_.peek() == '"') {
    op.name = scanner_.string();
    read_generic(op);
  } else {
    op.name = scanner_.word();
    if (op.name == "module" || op.name == "builtin.module") {
      read_module(op);
      op.name = {};
    } else if (op.name == "func.func" || op.name == "func") {
      read_function(false, op);
      op.name = {};
    } else {
      read_printed(op);
    }
  }
  read_location(op.location);
  if (op.name == "sdy.mesh") {
    read_mesh(op);
    op.name = {};
  }
  return op;
}

// "name"(%a, %b) <{properties}> ({regions}) {attributes} : (types) -> types
void Reader::read_generic(Op& op) {
  op.operands = read_uses("(", ")");
  if (scanner_.accept("[")) scanner_.fail("an op without successors is expected");
  if (scanner_.at("<{")) op.attributes = read_fields(scanner_, "<{", "}>");
  if (op.name == "func.func" || op.name == "builtin.func" || op.name == "std.func") {
    read_function(true, op);
    op.name = {};
    return;
  }
  if (scanner_.accept("(")) {
    do op.regions.push_back(read_region());
    while (scanner_.accept(","));
    scanner_.expect(")");
  }
  if (scanner_.at("{")) read_fields_of(op);
  read_types_of(op);
  if (op.name == "builtin.module" || op.name == "module") {
    if (const std::string_view name = op.find("sym_name"); !name.empty())
      tree_.name = name.substr(1, name.size() < 2 ? 0 : name.size() - 2);
    tree_.attributes.insert(tree_.attributes.end(), op.attributes.begin(), op.attributes.end());
    op.name = {};
  }
}

// ": (types) -> types", ": types" of the operands or of the results, or ": type -> types".
void Reader::read_types_of(Op& op) {
  if (!scanner_.accept(":")) return;
  op.types = read_types(scanner_, tree_.aliases);
  if (scanner_.accept("->")) {
    op.types = read_types(scanner_, tree_.aliases);
    return;
  }
  std::int64_t results = 0;
  for (const Result& result : op.results) results += result.count;
  // "select %p, %a, %b : tensor<2xi1>, tensor<2xf32>": the result's type is the last.
  if (results == 1 && op.types.size() > 1) op.types = {op.types.back()};
}

// func.func public @main(%arg0: t {...}) -> (t {...}) attributes {...} { ops }, and the generic form of it.
void Reader::read_function(bool generic, const Op& op) {
  Function function;
  function.line = op.line;
  if (generic) {
    std::vector<Field> attributes = op.attributes;
    scanner_.expect("(");
    if (!scanner_.accept(")")) {
      function.body = read_region();
      scanner_.expect(")");
    }
    if (scanner_.at("{"))
      for (const Field& field : read_fields(scanner_, "{", "}")) attributes.push_back(field);
    scanner_.expect(":");
    (void)read_types(scanner_, tree_.aliases);
    scanner_.expect("->");
    (void)read_types(scanner_, tree_.aliases);
    for (const Field& field : attributes) {
      const Value value{field.text, &scanner_.place(), op.line};
      if (field.name == "sym_name") {
        function.name = field.text.substr(1, field.text.size() < 2 ? 0 : field.text.size() - 2);
      } else if (field.name == "sym_visibility") {
        function.visible = value.string() != "private";
      } else if (field.name == "function_type" || field.name == "type") {
        Scanner type = value.scanner();
        (void)read_types(type, tree_.aliases);
        type.expect("->");
        function.results = read_types(type, tree_.aliases);
      } else if (field.name == "arg_attrs" || field.name == "res_attrs") {
        std::size_t k = 0;
        for (const std::string_view item : value.items()) {
          Scanner fields(item, scanner_.place(), op.line);
          std::vector<Field> read = read_fields(fields, "{", "}");
          if (field.name == "res_attrs")
            function.result_attributes.push_back(std::move(read));
          else if (k < function.body.arguments.size())
            function.body.arguments[k++].attributes = std::move(read);
        }
      }
    }
  } else {
    function.visible = !scanner_.accept_word("private");
    if (!scanner_.accept_word("public")) (void)scanner_.accept_word("nested");
    function.name = scanner_.symbol();
    read_arguments(function.body.arguments, "(", ")");
    if (scanner_.accept("->")) {
      if (scanner_.at("(")) {
        std::vector<Argument> results;
        read_arguments(results, "(", ")");
        for (Argument& result : results) {
          function.results.push_back(std::move(result.type));
          function.result_attributes.push_back(std::move(result.attributes));
        }
      } else {
        function.results.push_back(read_type(scanner_, tree_.aliases));
      }
    }
    if (scanner_.accept_word("attributes")) (void)read_fields(scanner_, "{", "}");
    if (scanner_.at("{")) {
      Region body = read_region();
      function.body.ops = std::move(body.ops);
    }
  }
  function.result_attributes.resize(function.results.size());
  tree_.functions.push_back(std::move(function));
}

// sdy.mesh @mesh = <["data"=2]>; read_any has its parts as attributes.
void Reader::read_mesh(const Op& op) {
  std::string_view name = op.find("sym_name");
  if (name.empty()) name = op.find("symbol");
  if (name.starts_with("\"")) name = name.substr(1, name.size() < 2 ? 0 : name.size() - 2);
  if (name.starts_with("@")) name.remove_prefix(1);
  tree_.meshes.insert_or_assign(name, op.find("mesh"));
}

SyntaxTree read_syntax(std::string_view text, const std::string& place) { return Reader(text, place).read(); }

}  // namespace meshwright::mlir
