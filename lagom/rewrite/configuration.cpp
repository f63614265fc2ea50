#include "lagom/rewrite/configuration.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "lagom/hlo/builder.h"
#include "lagom/hlo/edit.h"
#include "lagom/rewrite/rule.h"
#include "lagom/util/error.h"
#include "lagom/util/hash.h"

namespace lagom::rewrite {
namespace {

std::string layout_to_string(const hlo::Dims& layout) {
  std::string out = "{";
  for (size_t i = 0; i < layout.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(layout[i]);
  }
  return out + '}';
}

/// Two decisions in one place cannot both hold.
auto place(const Decision& d) {
  return std::tie(d.kind, d.instruction, d.operand);
}

/// The words of one line of the text form.
class Line {
 public:
  Line(std::string_view text, std::string_view path, size_t number)
      : rest_(text), path_(path), number_(number) {}

  std::string_view word(const char* what) {
    const size_t begin = rest_.find_first_not_of(' ');
    if (begin == std::string_view::npos) fail(std::string("expected ") + what + ", found the end");
    const size_t end = std::min(rest_.find(' ', begin), rest_.size());
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }
  std::string_view rest() {
    const size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
    return std::exchange(rest_, {}).substr(begin);
  }
  int64_t integer(const char* what) { return to_integer(word(what), what); }
  hlo::Dims layout() {
    std::string_view text = word("a layout such as {1,0}");
    if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
      fail("expected a layout such as {1,0}, found '" + std::string(text) + "'");
    }
    text = text.substr(1, text.size() - 2);
    hlo::Dims dims;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      dims.push_back(to_integer(text.substr(0, comma), "a dimension"));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return dims;
  }
  /// Lines end at a line feed and words at a blank: no other control character has a meaning.
  void expect_printable() const {
    for (const char c : rest_) {
      if (static_cast<unsigned char>(c) < 32 || c == 127) fail("a control character stands in it");
    }
  }
  void expect_end() {
    if (rest_.find_first_not_of(' ') != std::string_view::npos) {
      fail("expected the end of the line, found '" + std::string(rest()) + "'");
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(path_, "line " + std::to_string(number_), what);
  }

 private:
  int64_t to_integer(std::string_view text, const char* what) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(std::string("expected ") + what + ", found '" + std::string(text) + "'");
    }
    return value;
  }

  std::string_view rest_, path_;
  size_t number_;
};

FlagValue parse_flag_value(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return std::string(text.substr(1, text.size() - 2));
  }
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto r = std::from_chars(text.data(), end, integer);
      r.ec == std::errc() && r.ptr == end) {
    return integer;
  }
  double real = 0;
  if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc() && r.ptr == end) {
    return real;
  }
  return std::string(text);
}

/// A string that would read back as something else goes in quotes.
std::string flag_text(const FlagValue& value) {
  std::string text = flag_value_to_string(value);
  if (std::holds_alternative<std::string>(value) &&
      (text.empty() || !std::holds_alternative<std::string>(parse_flag_value(text)) ||
       text.front() == '"' || text.front() == ' ' || text.back() == ' ' || text.back() == '\r')) {
    return '"' + text + '"';
  }
  if (std::holds_alternative<double>(value) &&
      !std::holds_alternative<double>(parse_flag_value(text))) {
    return text + ".0";
  }
  return text;
}

Decision parse_decision(Line& line, std::string_view instruction) {
  Decision d;
  if (instruction.front() == '%') instruction.remove_prefix(1);
  if (instruction.empty()) line.fail("expected an instruction's name behind '%'");
  d.instruction = instruction;
  const std::string_view kind = line.word("form, output-layout, operand-layout or barrier");
  if (kind == "form") {
    d.kind = DecisionKind::kForm;
    d.form = line.word("the name of a rule");
  } else if (kind == "output-layout") {
    d.kind = DecisionKind::kOutputLayout;
    d.layout = line.layout();
  } else if (kind == "operand-layout") {
    d.kind = DecisionKind::kOperandLayout;
    d.operand = line.integer("an operand number");
    d.layout = line.layout();
  } else if (kind == "barrier") {
    d.kind = DecisionKind::kBarrier;
    d.operand = line.integer("an operand number");
  } else {
    line.fail("expected form, output-layout, operand-layout or barrier, found '" +
              std::string(kind) + "'");
  }
  line.expect_end();
  return d;
}

/// Puts the decisions of one configuration into a clone of a module.
class Applier {
 public:
  explicit Applier(hlo::Module& module) : module_(module), names_(module) {
    for (const auto& computation : module.computations()) {
      for (const auto& instruction : computation->instructions()) {
        sites_[instruction->name] = {computation.get(), instruction.get(), false};
        by_instruction_[instruction.get()] = instruction->name;
      }
    }
  }

  void apply_all(const std::vector<Decision>& decisions) {
    // Forms that take in more instructions come first: what they take in would be gone otherwise.
    std::vector<std::pair<int, const Decision*>> order;
    for (const Decision& d : decisions) order.emplace_back(priority(d), &d);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [unused, d] : order) apply(*d);
  }

  /// Multiplies the values of the forms applied so far.
  void scale_forms(double factor) {
    for (auto& [name, site] : sites_) {
      if (site.rewritten && hlo::is_floating(site.instruction->shape.element_type)) {
        scale(site, factor);
      }
    }
  }

 private:
  struct Site {
    hlo::Computation* computation = nullptr;
    hlo::Instruction* instruction = nullptr;
    bool rewritten = false;
  };

  [[noreturn]] void fail(const Decision& d, const std::string& why) const {
    throw std::invalid_argument("decision '" + d.to_string() + "': " + why);
  }

  Site& site_of(const Decision& d) {
    const auto it = sites_.find(d.instruction);
    if (it == sites_.end()) fail(d, "the module has no instruction of that name");
    return it->second;
  }

  /// Asked while the module is as it was.
  int priority(const Decision& d) {
    Site& site = site_of(d);
    if (d.kind != DecisionKind::kForm) return 3;
    const Rule* rule = find_rule(d.form);
    if (rule == nullptr) fail(d, "there is no such rule");
    if (!fits(*rule, *site.computation, *site.instruction)) {
      fail(d, "the rule does not fit this instruction");
    }
    if (rule->is_group_rule()) return 0;
    return rule->inner_nodes(*site.instruction).empty() ? 2 : 1;
  }

  void apply(const Decision& d) {
    Site& site = site_of(d);
    switch (d.kind) {
      case DecisionKind::kForm:
        return apply_form(d, site);
      case DecisionKind::kOutputLayout:
        return wrap_output(d, site);
      case DecisionKind::kOperandLayout:
      case DecisionKind::kBarrier:
        return wrap_operand(d, site);
    }
  }

  void apply_form(const Decision& d, Site& site) {
    const Rule& rule = *find_rule(d.form);
    if (site.rewritten || !fits(rule, *site.computation, *site.instruction)) return;
    const std::vector<hlo::Instruction*> group = rule.group(*site.computation, *site.instruction);
    std::vector<Site*> replaced;
    for (const hlo::Instruction* i : group) {
      const auto name = by_instruction_.find(i);
      replaced.push_back(name == by_instruction_.end() ? nullptr : &sites_.at(name->second));
      // The instruction will be gone, and another may get its address.
      if (name != by_instruction_.end()) by_instruction_.erase(name);
    }
    const std::vector<hlo::Instruction*> values =
        replace_group(rule, module_, *site.computation, names_, group);
    for (size_t i = 0; i < group.size(); ++i) {
      if (replaced[i] == nullptr) continue;
      replaced[i]->instruction = values.at(i);
      replaced[i]->rewritten = true;
    }
  }

  void check_layout(const Decision& d, const hlo::Shape& shape) const {
    hlo::Dims sorted = d.layout;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<int64_t>(i)) fail(d, "the layout is no permutation");
    }
    if (!shape.is_array() || shape.rank() != static_cast<int64_t>(sorted.size())) {
      fail(d, "the value has shape " + shape.to_string());
    }
  }

  /// Wraps a value for all its users: they read the wrapper, which stands right behind it.
  void wrap_output(const Decision& d, Site& site) {
    check_layout(d, site.instruction->shape);
    hlo::Builder builder(module_, *site.computation, names_, next_of(site));
    builder.set_origin(site.instruction);
    hlo::Instruction* wrapper = builder.layout_constraint(site.instruction, d.layout);
    builder.commit();
    hlo::replace_all_uses(*site.computation, site.instruction, wrapper);
  }

  void scale(Site& site, double factor) {
    hlo::Instruction* const value = site.instruction;
    hlo::Builder builder(module_, *site.computation, names_, next_of(site));
    hlo::Instruction* const scaled = builder.multiply(
        value, builder.full(value->shape.element_type, value->shape.dimensions, factor));
    builder.commit();
    hlo::replace_all_uses(*site.computation, value, scaled);
    site.instruction = scaled;
  }

  void wrap_operand(const Decision& d, Site& site) {
    if (site.rewritten) return;
    auto& operands = site.instruction->operands;
    if (d.operand < 0 || d.operand >= static_cast<int64_t>(operands.size())) {
      fail(d, "the instruction has " + std::to_string(operands.size()) + " operands");
    }
    hlo::Instruction*& operand = operands[static_cast<size_t>(d.operand)];
    if (!operand->shape.is_array()) fail(d, "the operand has shape " + operand->shape.to_string());
    hlo::Builder builder(module_, *site.computation, names_, site.instruction);
    builder.set_origin(site.instruction);
    hlo::Instruction* wrapper;
    if (d.kind == DecisionKind::kBarrier) {
      wrapper = builder.optimization_barrier(operand);
    } else {
      check_layout(d, operand->shape);
      wrapper = builder.layout_constraint(operand, d.layout);
    }
    builder.commit();
    operand = wrapper;
  }

  /// The instruction behind the site, in front of which a wrapper of its value goes; nullptr at the
  /// computation's end.
  const hlo::Instruction* next_of(const Site& site) const {
    const auto& instructions = site.computation->instructions();
    for (size_t i = 0; i + 1 < instructions.size(); ++i) {
      if (instructions[i].get() == site.instruction) return instructions[i + 1].get();
    }
    return nullptr;
  }

  hlo::Module& module_;
  hlo::NameTable names_;
  std::unordered_map<std::string, Site> sites_;
  std::unordered_map<const hlo::Instruction*, std::string> by_instruction_;  // As it was.
};

hlo::Module apply_scaled(const hlo::Module& module, const Configuration& configuration,
                         double factor) {
  hlo::Module result = module.clone();
  Applier applier(result);
  applier.apply_all(configuration.decisions);
  if (factor != 1) applier.scale_forms(factor);
  hlo::remove_dead_code(result);
  // New instructions may stand anywhere: a schedule would no longer hold, and is the compiler's.
  result.is_scheduled = false;
  return result;
}

}  // namespace

std::string Decision::to_string() const {
  // Without its sign such a name would begin a line of another kind.
  const bool is_special =
      instruction == "flag" || instruction.starts_with('#') || instruction.starts_with('%');
  const std::string name = is_special ? "%" + instruction : instruction;
  switch (kind) {
    case DecisionKind::kForm:
      return name + " form " + form;
    case DecisionKind::kOutputLayout:
      return name + " output-layout " + layout_to_string(layout);
    case DecisionKind::kOperandLayout:
      return name + " operand-layout " + std::to_string(operand) + " " + layout_to_string(layout);
    case DecisionKind::kBarrier:
      return name + " barrier " + std::to_string(operand);
  }
  return "";
}

void Configuration::set(Decision decision) {
  const auto it = std::find_if(decisions.begin(), decisions.end(),
                               [&](const Decision& d) { return place(d) == place(decision); });
  if (it != decisions.end()) {
    *it = std::move(decision);
  } else {
    decisions.insert(std::upper_bound(decisions.begin(), decisions.end(), decision),
                     std::move(decision));
  }
}

void Configuration::remove(const Decision& where) {
  std::erase_if(decisions, [&](const Decision& d) { return place(d) == place(where); });
}

std::string Configuration::to_string() const {
  std::string out;
  for (const Decision& d : decisions) out += d.to_string() + "\n";
  for (const auto& [name, value] : flags) out += "flag " + name + " " + flag_text(value) + "\n";
  return out;
}

Configuration Configuration::from_string(std::string_view text, std::string_view path) {
  Configuration configuration;
  size_t number = 0;
  while (!text.empty()) {
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    ++number;
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    const size_t begin = content.find_first_not_of(' ');
    if (begin == std::string_view::npos || content[begin] == '#') continue;
    Line line(content, path, number);
    line.expect_printable();
    const std::string_view first = line.word("an instruction's name or 'flag'");
    if (first == "flag") {
      const std::string name(line.word("a flag's name"));
      configuration.flags[name] = parse_flag_value(line.rest());
    } else {
      configuration.set(parse_decision(line, first));
    }
  }
  return configuration;
}

uint64_t Configuration::hash() const {
  return hash64(to_string());
}

hlo::Module apply(const hlo::Module& module, const Configuration& configuration) {
  return apply_scaled(module, configuration, 1);
}

hlo::Module apply_with_fault(const hlo::Module& module, const Configuration& configuration,
                             double share) {
  return apply_scaled(module, configuration, 1 + share);
}

}  // namespace lagom::rewrite
