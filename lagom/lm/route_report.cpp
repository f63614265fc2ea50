#include "lagom/lm/route_report.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lagom/util/report.h"

namespace lagom::lm {
namespace {

/// Index of a window's first token.
size_t window_begin(const RouteTable& table, int64_t window) {
  if (window < 0 || window >= table.num_windows()) {
    throw std::out_of_range("there is no window " + std::to_string(window) + ": the text has " +
                            std::to_string(table.num_windows()));
  }
  return static_cast<size_t>(window * table.length);
}

/// For each token of a window the share of the window's weights below its own.
std::vector<double> weight_ranks(const RouteTable::Layer& layer, size_t begin, int64_t length) {
  const auto first = layer.scores.begin() + static_cast<std::ptrdiff_t>(begin);
  std::vector<double> ranks = average_ranks(std::vector<double>(first, first + length));
  for (double& rank : ranks) rank = (rank - 0.5) / static_cast<double>(length);
  return ranks;
}

/// One character for a token in a row of them.
std::string one_character(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(' ');
  if (first == std::string_view::npos) return " ";
  const char c = bytes[first];
  if (c == '\n') return "⏎";
  return c > ' ' && c < 127 ? std::string(1, c) : "·";
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : format_number("%.1f", 100 * share);
}

std::string text_of(const Correlation& c) {
  if (std::isnan(c.rho)) return "none (one side is constant)";
  return format_number("%+.3f", c.rho) + " [" + format_number("%+.3f", c.interval.low) + ", " +
         format_number("%+.3f", c.interval.high) + "]";
}

std::string layer_name(const LayerRoutes& layer) {
  return std::to_string(layer.layer) + (layer.experts ? " experts" : "");
}

std::string threshold_text(const LayerRoutes& layer) {
  return format_number("%.3f", layer.threshold_mean) + " +- " +
         format_number("%.3f", layer.threshold_deviation);
}

/// Rows of a table, the header first.
using Rows = TableRows;

Rows layer_rows(const RouteAnalysis& analysis) {
  Rows rows = {{"block", "rate %", "smallest weight let in", "predictor right %", "majority %",
                "precision %", "recall %", "weight ~ entropy"}};
  for (const LayerRoutes& layer : analysis.layers) {
    const bool predicts = layer.predictor.total() > 0;
    const auto of = [&](double share) { return predicts ? percent(share) : "-"; };
    rows.push_back({layer_name(layer), percent(layer.rate), threshold_text(layer),
                    of(layer.predictor.accuracy()), of(layer.predictor.majority_accuracy()),
                    of(layer.predictor.precision()), of(layer.predictor.recall()),
                    text_of(layer.weight_entropy)});
  }
  return rows;
}

Rows position_rows(const RouteAnalysis& analysis) {
  Rows rows(1, {"block"});
  for (size_t i = 0; i < 10; ++i) rows[0].push_back(std::to_string(i + 1) + "/10");
  for (const LayerRoutes& layer : analysis.layers) {
    auto& row = rows.emplace_back(std::vector{layer_name(layer)});
    for (const double rate : layer.rate_by_position) row.push_back(percent(rate));
  }
  return rows;
}

Rows class_rows(const RouteAnalysis& analysis) {
  Rows rows = {{"class", "share %", "blocks", "entropy", "loss"}};
  for (const LayerRoutes& layer : analysis.layers) rows[0].push_back("% in " + layer_name(layer));
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const TokenGroup& group = analysis.classes[i];
    if (group.count == 0) continue;
    auto& row = rows.emplace_back();
    row = {group.name,
           percent(static_cast<double>(group.count) / static_cast<double>(analysis.tokens)),
           format_number("%.2f", group.blocks), format_number("%.2f", group.entropy),
           format_number("%.2f", group.loss)};
    for (const LayerRoutes& layer : analysis.layers) row.push_back(percent(layer.rate_by_class[i]));
  }
  return rows;
}

Rows expert_rows(const RouteAnalysis& analysis) {
  Rows rows = {{"block", "expert", "tokens %"}};
  for (const TokenGroup& group : analysis.classes) {
    if (group.count > 0) rows[0].push_back("% of " + group.name);
  }
  for (const ExpertRoutes& expert : analysis.experts) {
    auto& row = rows.emplace_back(std::vector{std::to_string(expert.layer),
                                              std::to_string(expert.expert), percent(expert.rate)});
    for (size_t i = 0; i < analysis.classes.size(); ++i) {
      if (analysis.classes[i].count > 0) row.push_back(percent(expert.rate_by_class[i]));
    }
  }
  return rows;
}

Rows token_rows(const RouteAnalysis& analysis) {
  Rows rows = {{"token", "seen", "blocks", "entropy", "loss"}};
  for (const auto* groups : {&analysis.most, &analysis.least}) {
    for (const TokenGroup& group : *groups) {
      rows.push_back({"'" + visible_bytes(group.name) + "'", std::to_string(group.count),
                      format_number("%.2f", group.blocks), format_number("%.2f", group.entropy),
                      format_number("%.2f", group.loss)});
    }
    if (groups == &analysis.most) rows.push_back({"..."});
  }
  return rows;
}

Rows blocks_rows(const RouteAnalysis& analysis) {
  Rows rows = {{"blocks entered", "tokens %", "independent %"}};
  for (size_t i = 0; i < analysis.blocks_per_token.size(); ++i) {
    rows.push_back({std::to_string(i),
                    percent(static_cast<double>(analysis.blocks_per_token[i]) /
                            static_cast<double>(analysis.tokens)),
                    percent(analysis.independent_blocks[i])});
  }
  return rows;
}

Rows overlap_rows(const RouteAnalysis& analysis) {
  Rows rows(1, {"of the tokens of"});
  for (const LayerRoutes& layer : analysis.layers) rows[0].push_back("% in " + layer_name(layer));
  for (size_t i = 0; i < analysis.layers.size(); ++i) {
    auto& row = rows.emplace_back(std::vector{layer_name(analysis.layers[i])});
    for (const double share : analysis.overlap[i]) row.push_back(percent(share));
  }
  return rows;
}

Rows control_rows(const std::vector<RouteControl>& controls) {
  Rows rows = {{"router", "loss", "against learned %", "same choices %"}};
  for (const RouteControl& control : controls) {
    rows.push_back({control.name, format_number("%.4f", control.loss),
                    format_number("%+.2f", 100 * (control.loss / controls.front().loss - 1)),
                    percent(control.overlap)});
  }
  return rows;
}

/// A part of a report: the same in text and on the page.
struct Section {
  std::string title, note;
  Rows rows;
};

Rows rows_of(const Section& section) {
  return {section.rows.begin() + 1, section.rows.end()};
}

std::vector<Section> sections(const RouteAnalysis& analysis,
                              const std::vector<RouteControl>& controls) {
  std::vector<Section> all = {
      {"Blocks", "Weight ~ entropy: rank correlation of router weight and predictive entropy.",
       layer_rows(analysis)},
      {"Share of tokens let in, by place in the window (%)", "", position_rows(analysis)},
      {"By class of token", "", class_rows(analysis)},
      {"Tokens that enter the most and the fewest routed blocks", "", token_rows(analysis)},
      {"Routed blocks that a token enters",
       "Rank correlation with predictive entropy " + text_of(analysis.blocks_entropy) +
           ", with loss " + text_of(analysis.blocks_loss) +
           " (95 %, bootstrap over windows). Independent: what the blocks' rates alone would give.",
       blocks_rows(analysis)}};
  if (!analysis.experts.empty()) {
    all.push_back({"Experts", "Shares of the tokens that reached the block, by class of token.",
                   expert_rows(analysis)});
  }
  if (analysis.layers.size() > 1) {
    all.push_back({"Overlap of blocks (%)", "By chance it is the rate of the second block.",
                   overlap_rows(analysis)});
  }
  if (!controls.empty()) {
    all.push_back({"Is it more than position and token?",
                   "Routers that know only how often the learned one took a position or a token, "
                   "learned on the first half of the windows; losses on the second half, top-k.",
                   control_rows(controls)});
  }
  return all;
}

std::string histogram_html(const LayerRoutes& layer) {
  Chart chart{.x_label = "router weight in block " + layer_name(layer), .y_label = "% of tokens"};
  const WeightHistogram& h = layer.weights;
  const double width = (h.high - h.low) / static_cast<double>(h.chosen.size());
  double total = 0;
  for (size_t i = 0; i < h.chosen.size(); ++i)
    total += static_cast<double>(h.chosen[i] + h.others[i]);
  for (const auto& [name, counts] :
       {std::pair{"entered", &h.chosen}, std::pair{"passed by", &h.others}}) {
    ChartSeries series{
        .name = name, .line = true, .marks = false, .color = counts == &h.chosen ? 1 : 2};
    for (size_t i = 0; i < counts->size(); ++i) {
      const double share = 100 * static_cast<double>((*counts)[i]) / total;
      // Steps: both ends of a bin.
      series.points.push_back({.x = h.low + width * static_cast<double>(i), .y = share});
      series.points.push_back({.x = h.low + width * static_cast<double>(i + 1), .y = share});
    }
    chart.series.push_back(std::move(series));
  }
  return chart_svg(chart);
}

/// The window as a grid of blocks by tokens, and as text shaded by blocks entered.
std::string map_html(const RouteTable& table, const text::Tokenizer& tokenizer, int64_t window) {
  const size_t begin = window_begin(table, window);
  const auto length = static_cast<size_t>(table.length);
  const double cell = 900.0 / static_cast<double>(length);
  const double row_height =
      std::clamp(220.0 / static_cast<double>(table.layers.size()), 14.0, 30.0);
  const double height = row_height * static_cast<double>(table.layers.size());
  std::string grid = "<svg viewBox=\"0 0 960 " + format_number("%.0f", height) +
                     "\" role=\"img\" aria-label=\"Blocks by tokens\">";
  std::vector<int> blocks(length, 0);
  for (size_t r = 0; r < table.layers.size(); ++r) {
    const RouteTable::Layer& layer = table.layers[table.layers.size() - 1 - r];  // deepest on top
    const std::vector<double> ranks = weight_ranks(layer, begin, table.length);
    const std::string y = format_number("%.1f", row_height * static_cast<double>(r));
    grid += "<text class=\"tick\" x=\"4\" y=\"" +
            format_number("%.0f", row_height * (static_cast<double>(r) + 0.5) + 4) + "\">" +
            std::to_string(layer.layer) + "</text>";
    for (size_t t = 0; t < length; ++t) {
      const bool chosen = layer.chosen[begin + t] != 0;
      blocks[t] += chosen;
      grid += "<rect x=\"" + format_number("%.2f", 50 + cell * static_cast<double>(t)) + "\" y=\"" +
              y + "\" width=\"" + format_number("%.2f", cell) + "\" height=\"" +
              format_number("%.1f", row_height - 1) + "\" fill=\"var(--" + (chosen ? "c1" : "c2") +
              ")\" opacity=\"" + (chosen ? "1" : format_number("%.2f", 0.35 * ranks[t])) + "\"/>";
    }
  }
  grid += "</svg>";

  std::string text = "<pre style=\"white-space:pre-wrap;line-height:1.9\">";
  const double most = std::max(1, *std::max_element(blocks.begin(), blocks.end()));
  for (size_t t = 0; t < length; ++t) {
    const size_t i = begin + t;
    const std::string_view bytes = tokenizer.token_bytes(table.tokens[i]);
    text += "<span style=\"background:color-mix(in srgb,var(--c1) " +
            format_number("%.0f", 75 * blocks[t] / most) + "%,transparent)\" title=\"" +
            std::to_string(blocks[t]) + " blocks, entropy " +
            format_number("%.2f", table.entropy[i]) + ", loss " +
            format_number("%.2f", table.loss[i]) + "\">" +
            (bytes == "\n" ? "⏎\n" : html_escape(visible_bytes(bytes))) + "</span>";
  }
  return grid +
         "<p class=\"dim\">Tokens from left to right, routed blocks from bottom to top. Filled: "
         "entered; the paler, the lower the router weight.</p>" +
         text + "</pre><p class=\"dim\">Shaded by the number of routed blocks entered.</p>";
}

}  // namespace

std::string visible_bytes(std::string_view bytes) {
  // A part of a character, as one byte of several, cannot be shown.
  const bool is_whole = text::complete_utf8(bytes).size() == bytes.size() &&
                        (bytes.empty() || (static_cast<unsigned char>(bytes[0]) & 0xC0) != 0x80);
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 32 || byte == 127 || (byte > 127 && !is_whole)) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += c;
    }
  }
  return out;
}

std::string route_map_text(const RouteTable& table, const text::Tokenizer& tokenizer,
                           int64_t window, int64_t columns) {
  const size_t begin = window_begin(table, window);
  constexpr const char* kShades[] = {" ", "░", "▒", "▓"};
  std::vector<std::vector<double>> ranks;
  for (const auto& layer : table.layers) ranks.push_back(weight_ranks(layer, begin, table.length));
  std::string out;
  for (int64_t first = 0; first < table.length; first += columns) {
    const int64_t last = std::min(table.length, first + columns);
    out += "      ";
    for (int64_t t = first; t < last; ++t) {
      out += one_character(tokenizer.token_bytes(table.tokens[begin + static_cast<size_t>(t)]));
    }
    out += "\n";
    for (size_t r = 0; r < table.layers.size(); ++r) {
      out += format_number("%4.0f  ", static_cast<double>(table.layers[r].layer));
      for (int64_t t = first; t < last; ++t) {
        const auto at = static_cast<size_t>(t);
        out += table.layers[r].chosen[begin + at]
                   ? "█"
                   : kShades[std::min<size_t>(3, static_cast<size_t>(4 * ranks[r][at]))];
      }
      out += "\n";
    }
  }
  return out;
}

std::string routes_text(const RouteAnalysis& analysis, const std::vector<RouteControl>& controls) {
  std::string out;
  for (const Section& section : sections(analysis, controls)) {
    out += "\n" + section.title + "\n" + text_table(section.rows.front(), rows_of(section));
    if (!section.note.empty()) out += section.note + "\n";
  }
  return out;
}

std::string routes_html(const std::string& title, const RouteTable& table,
                        const RouteAnalysis& analysis, const std::vector<RouteControl>& controls,
                        const text::Tokenizer& tokenizer, int64_t window) {
  std::string body = "<h1>Routes of " + html_escape(title) + "</h1><p class=\"dim\">" +
                     std::to_string(analysis.tokens) + " tokens in " +
                     std::to_string(analysis.windows) + " windows</p><h2>Window " +
                     std::to_string(window) + "</h2>" + map_html(table, tokenizer, window);
  for (const Section& section : sections(analysis, controls)) {
    body += "<h2>" + html_escape(section.title) + "</h2>" +
            html_table(section.rows.front(), rows_of(section));
    if (!section.note.empty()) body += "<p class=\"dim\">" + html_escape(section.note) + "</p>";
  }
  body += "<h2>Router weights</h2>";
  for (const LayerRoutes& layer : analysis.layers) body += histogram_html(layer);
  return html_page("Routes of " + title, body);
}

}  // namespace lagom::lm
