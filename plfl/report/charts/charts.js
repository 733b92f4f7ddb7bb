// The charts of the page. On a screen they replace the drawings, follow the filters above them, and
// show the values under the pointer or chosen with the arrow keys. All their data are in `#chart-data`.
(() => {
  const source = document.getElementById("chart-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const { axes, scores, models, participant } = data;
  const everyone = data.forecasters.map((one, id) => ({ ...one, id }));
  const cells = everyone.filter((one) => one.kind !== "baseline");
  const beside = everyone.filter((one) => one.kind === "baseline");
  const at = Object.fromEntries(axes.map(({ key }, i) => [key, i]));
  const values = (i, among = cells) => [...new Set(among.map((one) => one.axes[i]))];
  const varied = axes.map((_, i) => i).filter((i) => values(i).length > 1);
  const label = (i, value) => data.labels[axes[i].key]?.[value] ?? value;
  // The axis within a row of the grid: the ServerOpt. Other charts show only its best value on validation.
  const inner = varied.includes(at.server_opt) ? at.server_opt : undefined;
  const outer = varied.filter((i) => i !== at.state && i !== at.sharing && i !== inner);
  const coloured = [at.sharing, ...outer, inner].filter((i) => varied.includes(i));
  const HUES = 10,
    DASHES = ["none", "7 3", "2 2", "9 3 2 3", "4 2", "12 3", "6 2 2 2 2 2"];
  const SYMBOLS = ["circle", "square", "triangle", "diamond", "cross", "star", "wye"];
  const hue = (k) => `var(--hue-${k % HUES})`;
  const capital = (word) => word[0].toUpperCase() + word.slice(1);
  const minus = (text) => text.replace("-", "−");
  const print = (value) => (value == null ? "n/a" : minus(String(Number(value.toPrecision(4)))));
  const signed = (value) => (value > 0 ? "+" : "") + minus(String(Number(value.toPrecision(3))));
  const mean = (list) => {
    const known = list.filter((value) => value != null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };
  const deviation = (list) => {
    const m = mean(list);
    return Math.sqrt(list.reduce((sum, value) => sum + (value - m) ** 2, 0) / (list.length - 1));
  };

  // --- what is shown ---------------------------------------------------------------------------
  const view = {
    where: {},
    client: "",
    model: models[0],
    score: scores[0]?.key,
    log: true,
    best: true,
    colour: outer[0] ?? coloured[0],
  };
  const shown = (among = cells) =>
    among.filter((one) =>
      Object.entries(view.where).every(
        ([i, value]) => one.axes[i] === value || (one.kind === "baseline" && Number(i) !== at.state),
      ),
    );
  const place = (one) => data.clients[one.axes[at.state]].indexOf(view.client);
  const ofModel = (one, model = view.model, part = "") => one[model + part] ?? one[`local${part}`];
  function score(one) {
    const list = ofModel(one)?.[view.score];
    if (!list) return null;
    if (view.client) return list[place(one)] ?? null;
    return one.diverged ? null : ofModel(one, view.model, "_mean")[view.score];
  }
  const ofWhom = () => (view.client ? `${participant} ${view.client}` : `mean over ${participant}s`);
  const about = () => scores.find(({ key }) => key === view.score);
  const unit = () => (about().unit ? ` (${about().unit})` : "");
  const scored = () => `Test ${about().label}${unit()}`;
  // If a client is chosen, only its state has something to show.
  const present = (among = cells) => shown(among).filter((one) => !view.client || place(one) >= 0);
  const validation = (one) => one.validation ?? Infinity;
  /** The forecaster of lowest validation MASE of each group. */
  function leaders(among, group) {
    const found = new Map();
    for (const one of among) {
      const key = group(one);
      if (!found.has(key) || validation(one) < validation(found.get(key))) found.set(key, one);
    }
    return [...found.values()];
  }
  const state = (one) => one.axes[at.state],
    scheme = (one) => one.axes[at.sharing];
  const full = (one) => (varied.includes(at.state) ? `${state(one)}: ${one.name}` : one.name);
  const colourOf = (one) => (view.colour === undefined ? "" : label(view.colour, one.axes[view.colour]));
  const colours = () => (view.colour === undefined ? [""] : values(view.colour).map((v) => label(view.colour, v)));
  function describe(one) {
    const list = ofModel(one, view.model, "_seeds")?.[view.score];
    const spread = list && !view.client ? ` ± ${print(deviation(list))}` : "";
    const facts = [
      full(one),
      one.kind === "federated" ? `${view.model} model` : one.kind === "alone" ? "local training" : "baseline",
      one.diverged ? "diverged" : `test ${about().label} ${print(score(one))}${spread}`,
      `validation MASE ${print(one.validation)}`,
      `${print(one.mb)} MB per ${participant}`,
    ];
    if (one.hours != null) facts.push(`${print(one.hours)} simulated hours`);
    if (view.client) facts.push(`${participant} ${view.client}`);
    return facts.join("\n");
  }

  // --- how it is drawn -------------------------------------------------------------------------
  const STYLE = { fontSize: "12px", fontFamily: "inherit", overflow: "visible" };
  const vertical = (list, more = {}) => {
    const known = list.filter((value) => value != null),
      least = Math.min(...known);
    // Within a decade, a log axis has at most one labelled tick and differs little from a linear one.
    const wide = view.log && least > 0 && Math.max(...known) > 10 * least;
    return {
      type: wide ? "log" : "linear",
      label: scored(),
      grid: true,
      nice: !wide,
      tickFormat: (v) => print(v),
      ticks: 5,
      ...more,
    };
  };
  /** Panels: one below the other for states, and along `across` (fx or fy), if given, for sharing schemes. */
  const facets = (rows, across) => {
    const many = (list) => new Set(list).size > 1;
    const [states, schemes] = [rows.map(({ one }) => state(one)), rows.map(({ one }) => scheme(one))];
    const found = { options: {}, channels: {}, rows: 1, ofStates: many(states) };
    if (found.ofStates) {
      found.channels.fy = ({ one }) => state(one);
      found.options.fy = { label: null, domain: values(at.state).filter((v) => states.includes(v)) };
      found.rows = new Set(states).size;
    }
    if (across && !found.channels[across] && many(schemes)) {
      found.channels[across] = ({ one }) => scheme(one);
      found.options[across] = { label: null, domain: values(at.sharing).filter((v) => schemes.includes(v)) };
      if (across === "fy") found.rows = new Set(schemes).size;
    }
    return found;
  };
  /** The name of an axis within a sentence. */
  const noun = (i) => axes[i].label.replace(/^[A-Z](?=[a-z]+( |$))/, (letter) => letter.toLowerCase());
  const legend = (domain, symbols) =>
    domain.length > 1
      ? Plot.legend(
          symbols
            ? {
                symbol: { domain, range: domain.map((_, k) => SYMBOLS[k % SYMBOLS.length]) },
                fill: "color",
                color: { domain, range: domain.map((_, k) => hue(k)) },
                style: STYLE,
              }
            : { color: { type: "categorical", domain, range: domain.map((_, k) => hue(k)) }, style: STYLE },
        )
      : null;
  const palette = (domain) => ({ type: "categorical", domain, range: domain.map((_, k) => hue(k)) });
  const pointed = (rows, channels, more = {}) =>
    Plot.tip(
      rows,
      Plot.pointer({
        ...channels,
        title: (row) => row.text,
        maxRadius: 40,
        fontSize: 12,
        lineWidth: 24,
        lineHeight: 1.25,
        ...more,
      }),
    );

  function convergence(width) {
    let among = present().filter((one) => ofModel(one, view.model, "_curve")?.[view.score]);
    if (view.best) among = leaders(among, (one) => [state(one), scheme(one), colourOf(one)].join("|"));
    const rows = among.flatMap((one) => {
      const curve = ofModel(one, view.model, "_curve");
      return curve.round
        .map((round, i) => ({ one, round, value: curve[view.score][i] }))
        .filter(({ value }) => value != null)
        .map((row) => ({
          ...row,
          text: `${full(one)}\nround ${row.round}: validation ${about().label} ${print(row.value)}`,
        }));
    });
    if (!rows.length) return null;
    const narrow = width < 560,
      own = view.colour === at.sharing, // each scheme has a colour
      { options, channels, rows: count, ofStates } = facets(rows, narrow ? !own && "fy" : "fx");
    const base = { x: "round", y: "value", ...channels };
    const domain = colours();
    const ofColour = domain.map((c) => rows.filter(({ one }) => colourOf(one) === c));
    const rivals =
      view.score === "mase"
        ? leaders(
            present(beside).filter(({ mb }) => !mb),
            state,
          ).map((one) => ({ one }))
        : [];
    const svg = Plot.plot({
      width,
      height: 68 + count * (narrow ? 260 : 190),
      marginLeft: 52,
      marginBottom: 38,
      marginRight: channels.fy ? 34 : 16,
      style: STYLE,
      ...options,
      x: {
        label: "Round",
        nice: true,
        tickFormat: (v) => (Number.isInteger(v) ? String(v) : ""),
        ticks: Math.max(2, width / (channels.fx ? 260 : 110)),
      },
      y: vertical(
        rows.map(({ value }) => value),
        { label: `Validation ${about().label}${unit()}` },
      ),
      color: palette(domain),
      marks: [
        view.score === "mase" ? Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "1 3" }) : null,
        Plot.ruleY(rivals, {
          y: ({ one }) => one.validation,
          ...(ofStates ? { fy: channels.fy } : {}),
          stroke: "currentColor",
          strokeDasharray: "8 3 2 3",
        }),
        ...ofColour.map((some, k) =>
          Plot.line(some, {
            ...base,
            z: ({ one }) => one.id,
            stroke: hue(k),
            strokeWidth: 1.8,
            strokeDasharray: DASHES[k % DASHES.length],
            className: `series-${k}`,
          }),
        ),
        ...ofColour.map((some, k) =>
          Plot.dot(some, { ...base, fill: hue(k), symbol: SYMBOLS[k % SYMBOLS.length], r: 2.6 }),
        ),
        pointed(rows, base),
      ],
    });
    // The curve under the pointer stands out.
    svg.addEventListener("input", () => {
      const chosen = svg.value?.one;
      ofColour.forEach((some, k) => {
        for (const path of svg.querySelectorAll(`.series-${k} path`))
          path.style.opacity = !chosen || some[path.__data__[0]].one === chosen ? 1 : 0.15;
      });
    });
    const which = view.best
      ? `for each ${view.colour === undefined ? "scheme" : noun(view.colour)} the one of lowest validation MASE`
      : "every training";
    const mark = rivals.length
      ? " Horizontal lines: persistence (dotted) and the baseline of lowest validation MASE among those that " +
        "send no data (dash-dotted)."
      : "";
    return [
      legend(domain, true),
      svg,
      caption(
        "convergence",
        `Validation ${about().label} over the rounds, ${view.model} models, mean over ` +
          `${participant}s${data.seeds > 1 ? " and seeds" : ""}: ${which}.${mark}`,
      ),
    ];
  }

  function grid(width) {
    const among = present().filter((one) => ofModel(one)?.[view.score]);
    if (!among.length) return null;
    const rowOf = (one) =>
      outer
        .filter((i) => i !== at.sharing)
        .map((i) => label(i, one.axes[i]))
        .join(" · ") || label(at.client_opt, one.axes[at.client_opt]);
    const columnOf = (one) => (one.kind === "alone" ? "none" : label(at.server_opt, one.axes[at.server_opt]));
    const key = (one) => `${scheme(one)}|${columnOf(one)}`;
    // The columns of each sharing scheme, with a gap between schemes.
    const domain = [],
      heads = [],
      first = state(among[0]);
    for (const name of values(at.sharing, among)) {
      const keys = [...new Set(among.filter((one) => scheme(one) === name).map(key))];
      if (domain.length) domain.push(`gap|${name}`);
      heads.push({ name, x: keys[Math.floor((keys.length - 1) / 2)] });
      domain.push(...keys);
    }
    const scale = shades(among.map(score));
    const rows = among.map((one) => {
      const value = score(one);
      return {
        one,
        value,
        x: key(one),
        y: rowOf(one),
        text: describe(one),
        shown: one.diverged ? "div." : value == null ? "n/a" : value >= 100 ? value.toPrecision(3) : value.toFixed(2),
        fill: scale.of(value),
        ink: scale.ink(value),
      };
    });
    const states = values(at.state, among),
      names = [...new Set(rows.map(({ y }) => y))];
    const least = new Set(
      states.flatMap((s) =>
        values(at.sharing, among).flatMap((name) =>
          leastOf(rows.filter(({ one }) => state(one) === s && scheme(one) === name)),
        ),
      ),
    );
    const left = aside(names, width);
    const across = Math.max(width, left + 40 + 38 * domain.length);
    const base = { x: "x", y: "y", fy: ({ one }) => state(one) };
    const svg = Plot.plot({
      width: across,
      height: 130 + states.length * (names.length * 26 + 14),
      marginLeft: left,
      marginTop: 96,
      marginRight: 40,
      marginBottom: 8,
      style: STYLE,
      x: { type: "band", domain, axis: null, padding: 0 },
      y: { type: "band", domain: names, label: null, padding: 0, tickSize: 0 },
      fy: { label: null, domain: states, padding: 0.06 },
      marks: [
        Plot.axisX(
          domain.filter((k) => !k.startsWith("gap|")),
          {
            anchor: "top",
            tickFormat: (k) => k.split("|")[1],
            tickRotate: -40,
            tickSize: 0,
            label: null,
            fy: () => first,
            dy: 2,
          },
        ),
        Plot.text(heads, {
          x: "x",
          text: "name",
          fy: () => first,
          frameAnchor: "top",
          dy: -86,
          fontWeight: "bold",
          fontSize: 13,
        }),
        Plot.cell(rows, { ...base, fill: ({ fill }) => fill, inset: 0.5 }),
        Plot.text(rows, { ...base, text: "shown", fill: ({ ink }) => ink, fontSize: 11, fontWeight: 400 }),
        Plot.cell(
          rows.filter((row) => least.has(row)),
          { ...base, fill: "none", stroke: "var(--mark)", strokeWidth: 2.5 },
        ),
        pointed(rows, base, { maxRadius: 30 }),
      ],
      color: { type: "identity" },
    });
    const text = caption(
      "fig3_mase",
      `Test ${about().label} at the last round, ${view.model} models, ` +
        `${ofWhom()}${data.seeds > 1 ? " and seeds" : ""}. A square is a cell; ` +
        `${outer.length ? `its row is the ${outer.map(noun).join(" and ")}, its column` : "its column is"} the ` +
        `${axes[at.server_opt].label}, under the name of its sharing scheme. Framed: the lowest ${about().label} ` +
        `of each state and sharing scheme. “none”: ${participant}s that share nothing have no ` +
        `server.${scale.capped ? " The last colour stands for all scores above." : ""}`,
    );
    return [scale.legend(), svg, text];
  }
  /** Room for names beside a chart. */
  const aside = (names, width, share = 1 / 2.4) =>
    Math.min(share * width, 22 + 7.4 * Math.max(...names.map((name) => name.length)));
  /** The rows of the lowest value, unless there is only one row. */
  const leastOf = (rows) => {
    const least = Math.min(...rows.map(({ value }) => value ?? Infinity));
    return rows.length > 1 ? rows.filter(({ value }) => value === least) : [];
  };

  /** Colours of scores from the lowest to 1.5 times as far above the median, on a log scale. */
  function shades(list) {
    const known = list
      .filter((value) => value > 0)
      .map(Math.log)
      .sort((a, b) => a - b);
    const low = known[0] ?? 0,
      median = known[Math.floor(known.length / 2)] ?? 0;
    const high = Math.max(Math.min(known.at(-1) ?? 1, median + 1.5 * (median - low)), low + 0.1);
    const color = {
      type: view.log ? "log" : "linear",
      domain: [Math.exp(low), Math.exp(high)],
      scheme: "cividis",
      reverse: true,
      clamp: true,
      interpolate: undefined,
    };
    const { apply } = Plot.scale({ color });
    const of = (value) => (value == null ? "var(--absent)" : apply(value));
    const ink = (value) => {
      if (value == null) return "currentColor";
      const [r, g, b] = apply(value)
        .match(/\d+/g)
        .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
    };
    const between = (share) =>
      view.log ? Math.exp(low + share * (high - low)) : Math.exp(low) + share * (Math.exp(high) - Math.exp(low));
    const marks = [0, 0.25, 0.5, 0.75, 1].map(between);
    const legend = () =>
      Plot.legend({
        color: {
          ...color,
          label: `${scored()}, ${view.model} models`,
          tickFormat: (v) => print(Number(v.toPrecision(2))),
        },
        ticks: marks,
        width: 340,
        marginLeft: 14,
        marginRight: 14,
        style: STYLE,
      });
    return { of, ink, legend, capped: known.at(-1) > high };
  }

  function pareto(width) {
    const costs = [["mb", `Megabytes per ${participant}, all rounds, both directions`]];
    const found = [];
    const points = [...present(), ...present(beside)]
      .map((one) => ({ one, value: score(one), text: describe(one) }))
      .filter(({ value }) => value != null);
    if (points.some(({ one }) => one.hours != null)) costs.push(["hours", "Simulated hours, all rounds"]);
    const domain = colours();
    const k = (one) => domain.indexOf(colourOf(one));
    for (const [cost, name] of costs) {
      const rows = points.filter(({ one }) => one[cost] != null);
      if (!rows.length) continue;
      const { options, channels, rows: count } = facets(rows);
      const x = ({ one }) => one[cost];
      const base = { x, y: "value", ...channels };
      const front = fronts(rows, x),
        most = Math.max(...rows.map(x));
      const least = Math.min(...rows.map(x).filter((value) => value > 0));
      const [own, others] = [
        rows.filter(({ one }) => one.kind !== "baseline"),
        rows.filter(({ one }) => one.kind === "baseline"),
      ];
      const stars = width < 560 ? [] : others.filter((row) => x(row) > 0);
      found.push(
        Plot.plot({
          width,
          height: 68 + count * 260,
          marginLeft: 52,
          marginBottom: 38,
          marginRight: channels.fy ? 34 : 16,
          style: STYLE,
          ...options,
          x: {
            type: view.log && Number.isFinite(least) ? "symlog" : "linear",
            constant: least,
            label: name,
            ticks: width < 560 ? 2 : 8,
            tickFormat: (v) => print(v),
            inset: 12,
          },
          y: vertical(
            rows.map(({ value }) => value),
            { insetTop: 10, insetBottom: 22 },
          ),
          color: palette(domain),
          marks: [
            view.score === "mase" ? Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "1 3" }) : null,
            Plot.line(front.steps, {
              x: "cost",
              y: "value",
              ...channels,
              z: ({ one }) => state(one),
              curve: "step-after",
              stroke: "currentColor",
              strokeWidth: 1,
            }),
            ...domain.map((_, j) =>
              Plot.dot(
                own.filter(({ one }) => k(one) === j),
                {
                  ...base,
                  stroke: hue(j),
                  fill: view.model === "local" ? hue(j) : "none",
                  symbol: SYMBOLS[j % SYMBOLS.length],
                  r: (row) => (front.points.has(row) ? 6 : 4),
                  strokeWidth: 1.5,
                  fillOpacity: 0.8,
                },
              ),
            ),
            Plot.dot(others, { ...base, symbol: "star", fill: "currentColor", r: 4 }),
            ...[
              ["start", 9],
              ["end", -9],
            ].map(([textAnchor, dx]) =>
              Plot.text(
                [...new Set([...front.points, ...stars])].filter(
                  (row) => x(row) < most / 3 === (textAnchor === "start"),
                ),
                {
                  ...base,
                  text: ({ one }) => one.name,
                  textAnchor,
                  dx,
                  dy: 10,
                  stroke: "var(--paper)",
                  strokeWidth: 4,
                  fill: "currentColor",
                  fontSize: 11,
                },
              ),
            ),
            pointed(rows, base),
          ],
        }),
      );
    }
    return found.length
      ? [
          legend(domain, true),
          ...found,
          caption(
            "pareto",
            `Test ${about().label} at the last round, ${view.model} models, ` +
              `${ofWhom()}${data.seeds > 1 ? " and seeds" : ""}, against what the training costs. Stars: ` +
              "baselines, of which the pooled ones send raw data once. The line is the Pareto front of what is " +
              `shown, whose points are named.${view.score === "mase" ? " Dotted: persistence." : ""}`,
          ),
        ]
      : null;
  }
  function fronts(rows, cost) {
    const points = new Set(),
      steps = [],
      most = Math.max(...rows.map(cost));
    for (const name of new Set(rows.map(({ one }) => state(one)))) {
      let least = Infinity;
      for (const row of rows
        .filter(({ one }) => state(one) === name)
        .sort((a, b) => cost(a) - cost(b) || a.value - b.value))
        if (row.value < least) {
          points.add(row);
          steps.push({ ...row, cost: cost(row) });
          least = row.value;
        }
      steps.push({ ...steps.at(-1), cost: most });
    }
    return { points, steps };
  }

  // Critical-difference diagram (Demšar 2006): the best rank is on the right.
  function ranks(width) {
    const among = present().filter((one) => one.kind === "alone" || view.model in one);
    const nameOf = (one) =>
      [scheme(one), ...outer.filter((i) => i !== at.sharing).map((i) => label(i, one.axes[i]))].join(" ");
    const best = leaders(among, (one) => `${state(one)}|${nameOf(one)}`);
    const names = [...new Set(best.map(nameOf))];
    const blocks = [];
    for (const name of new Set(best.map(state))) {
      const own = names.map((n) => best.find((one) => state(one) === name && nameOf(one) === n));
      if (own.some((one) => !one)) continue;
      data.clients[name].forEach((client, c) => {
        if (view.client && client !== view.client) return;
        const list = own.map((one) => (one.diverged ? Infinity : ofModel(one)[view.score]?.[c]));
        if (list.every((value) => value != null)) blocks.push(list);
      });
    }
    const count = names.length;
    if (count < 2 || !blocks.length) return null;
    const sums = new Array(count).fill(0);
    for (const list of blocks)
      list.forEach((value, i) => {
        sums[i] += 1 + list.filter((v) => v < value).length + (list.filter((v) => v === value).length - 1) / 2;
      });
    const ranked = names.map((name, i) => ({ name, rank: sums[i] / blocks.length })).sort((a, b) => a.rank - b.rank);
    const critical = data.q[count] * Math.sqrt((count * (count + 1)) / (6 * blocks.length));
    const half = Math.ceil(count / 2),
      groups = [];
    ranked.forEach((one, i) => {
      let end = i;
      while (end + 1 < count && ranked[end + 1].rank - one.rank < critical) end += 1;
      if (end > i && end > (groups.at(-1)?.end ?? -1)) groups.push({ start: i, end });
    });
    const top = 1.6 + 0.45 * groups.length;
    ranked.forEach((one, i) => {
      one.right = i < half;
      one.y = top + (one.right ? i : count - 1 - i);
      one.edge = one.right ? 1 : count;
      one.text = `${one.name}\nmean rank ${print(one.rank)} over ${blocks.length} ` +
        `${participant}${blocks.length > 1 ? "s" : ""}`;
    });
    const space = aside(names, width);
    const svg = Plot.plot({
      width,
      height: 90 + 22 * (top + half),
      marginTop: 74,
      marginLeft: space,
      marginRight: space,
      marginBottom: 4,
      style: STYLE,
      x: { domain: [count, 1], axis: null },
      y: { domain: [0, top + half], reverse: true, axis: null },
      marks: [
        Plot.axisX({
          anchor: "top",
          ticks: Math.min(count, width < 560 ? 5 : 12),
          tickFormat: (v) => (Number.isInteger(v) ? String(v) : ""),
          label: "Mean rank; 1 is best →",
          labelAnchor: "right",
          labelOffset: 36,
        }),
        Plot.ruleY([0]),
        Plot.link([0], {
          x1: () => count,
          x2: () => Math.max(count - critical, 1),
          y1: () => -1.9,
          y2: () => -1.9,
          strokeWidth: 2,
          markerStart: "tick",
          markerEnd: "tick",
        }),
        Plot.text([0], {
          x: () => count - Math.min(critical, count - 1) / 2,
          y: () => -1.9,
          text: () => `CD ${print(critical)}`,
          dy: -9,
        }),
        Plot.line(
          ranked.flatMap((one) => [
            { ...one, at: one.rank, h: 0 },
            { ...one, at: one.rank, h: one.y },
            { ...one, at: one.edge, h: one.y },
          ]),
          { x: "at", y: "h", z: "name", stroke: "currentColor", strokeWidth: 1 },
        ),
        Plot.link(groups, {
          x1: ({ start }) => ranked[start].rank - 0.06,
          x2: ({ end }) => ranked[end].rank + 0.06,
          y1: (_, i) => 1.5 + 0.45 * i,
          y2: (_, i) => 1.5 + 0.45 * i,
          strokeWidth: 5,
          stroke: "var(--mark)",
        }),
        Plot.dot(ranked, { x: "rank", y: () => 0, fill: "currentColor", r: 3 }),
        Plot.text(
          ranked.filter(({ right }) => right),
          { x: "edge", y: "y", text: "name", textAnchor: "start", dx: 5 },
        ),
        Plot.text(
          ranked.filter(({ right }) => !right),
          { x: "edge", y: "y", text: "name", textAnchor: "end", dx: -5 },
        ),
        Plot.tip(
          ranked,
          Plot.pointerX({ x: "rank", y: () => 0, title: ({ text }) => text, fontSize: 12, lineHeight: 1.25 }),
        ),
      ],
    });
    return [
      svg,
      caption(
        "ranks",
        `Mean rank by test ${about().label}, ${view.model} models, ${blocks.length} ` +
          `${participant}${blocks.length > 1 ? "s" : ""}` +
          `${inner === undefined ? "" : `; each combination has its ${noun(inner)} of lowest validation MASE`}; ` +
          "a diverged one ranks last. A thick bar joins combinations that Nemenyi's test at 5 % does not " +
          "separate: their ranks differ by less than the critical difference (CD).",
      ),
    ];
  }

  // --- weeks -----------------------------------------------------------------------------------
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const unpack = ([offset, step, digits]) =>
    Array.from({ length: digits.length / 2 }, (_, i) => {
      const n = 64 * DIGITS.indexOf(digits[2 * i]) + DIGITS.indexOf(digits[2 * i + 1]);
      return n === 4095 ? NaN : offset + step * n;
    });
  function weekOf(name, client) {
    const week = data.weeks[name]?.clients[client];
    if (!week) return null;
    const start = Date.parse(`${week.start}Z`);
    const line = (key) => (week.lines[key] ? unpack(week.lines[key]) : null);
    const load = line("load");
    const minutes = typeof week.minutes === "number" ? load.map((_, i) => i * week.minutes) : week.minutes;
    const levels = Object.keys(week.lines)
      .filter((key) => key.startsWith("q"))
      .map((key) => Number(key.slice(1)))
      .sort((a, b) => a - b);
    return { levels, times: minutes.map((m) => new Date(start + 60000 * m)), load, line };
  }
  /** A week of a client: the load and some lines, each {key, name, colour}. */
  function weekChart(width, name, client, lines, { height = 230, domain, fan } = {}) {
    const week = weekOf(name, client);
    if (!week) return null;
    const all = [{ key: "load", name: "load", colour: "var(--load)" }, ...lines]
      .map((line) => ({ ...line, values: line.key === "load" ? week.load : week.line(line.key) }))
      .filter((line) => line.values);
    const step = Math.min(...week.times.slice(1).map((time, i) => time - week.times[i]));
    const points = week.times.map((time, i) => ({
      time,
      i,
      text: [
        `${client}, ${time.toISOString().slice(0, 16).replace("T", " ")}`,
        ...all.map((line) => `${line.name} ${print(line.values[i])}`),
      ].join("\n"),
    }));
    // Lines stop where loads are missing.
    const broken = points.flatMap((point, i) =>
      i && point.time - points[i - 1].time > 1.5 * step
        ? [{ time: new Date(points[i - 1].time.getTime() + step) }, point]
        : [point],
    );
    const drawn = [...all].reverse();
    // Quantiles: an interval between the lowest and the highest, another one inside it, and so on.
    const levels = fan ? week.levels : [];
    const bands = levels.slice(0, Math.floor(levels.length / 2)).map((low, k) => {
      const [bottom, top] = [low, levels.at(-1 - k)].map((level) => week.line(`q${level}`));
      return Plot.areaY(broken, {
        x: "time",
        y1: ({ i }) => bottom[i],
        y2: ({ i }) => top[i],
        fill: fan,
        fillOpacity: 0.16,
      });
    });
    return Plot.plot({
      width,
      height,
      marginLeft: 48,
      style: STYLE,
      x: { type: "utc", label: null, ticks: width < 500 ? 4 : 7 },
      y: { label: `Load (${data.unit})`, grid: true, domain, zero: true, ticks: 4 },
      marks: [
        ...bands,
        ...drawn.map((line) =>
          Plot.line(broken, {
            x: "time",
            y: ({ i }) => line.values[i],
            stroke: line.colour,
            strokeWidth: line.key === "load" ? 1.7 : 1.3,
          }),
        ),
        Plot.ruleX(points, Plot.pointerX({ x: "time", stroke: "currentColor", strokeWidth: 0.6 })),
        Plot.tip(
          points,
          Plot.pointerX({
            x: "time",
            y: ({ i }) => week.load[i],
            title: ({ text }) => text,
            fontSize: 12,
            lineHeight: 1.25,
          }),
        ),
      ],
    });
  }
  const keyOf = (lines) =>
    Plot.legend({
      color: { type: "categorical", domain: lines.map(({ name }) => name), range: lines.map(({ colour }) => colour) },
      style: STYLE,
    });
  const rival = (name) =>
    leaders(
      beside.filter((one) => state(one) === name && !one.mb),
      state,
    )[0];
  const COLOURS = { federation: "var(--link)", "training alone": "var(--hue-1)", LightGBM: "var(--hue-6)" };
  const shownWeek = {};
  function week(width) {
    const known = Object.entries(data.weeks),
      names = known.map(([name]) => name);
    if (!names.length) return null;
    const chosen = names.includes(shownWeek.state) ? shownWeek.state : names[0],
      { chief, clients, middle } = data.weeks[chosen];
    const client = shownWeek.client in clients ? shownWeek.client : middle;
    const lines = Object.entries(chief).map(([name, id]) => ({ key: String(id), name, colour: COLOURS[name] }));
    if (lines.length < 2) {
      const best = rival(chosen);
      lines.push(...(best ? [{ key: String(best.id), name: best.name, colour: "var(--base)" }] : []), {
        key: "persistence",
        name: "persistence",
        colour: "var(--naive)",
      });
    }
    const options = known.flatMap(([name, { clients: own }]) =>
      data.clients[name]
        .filter((one) => one in own)
        .map((one) => [JSON.stringify([name, one]), names.length > 1 ? `${name}: ${one}` : one]),
    );
    const select = choice(capital(participant), "week", options, JSON.stringify([chosen, client]), (value) => {
      [shownWeek.state, shownWeek.client] = JSON.parse(value);
      draw("week");
    });
    const chart = weekChart(width, chosen, client, lines, { fan: COLOURS.federation });
    const fanned = weekOf(chosen, client).levels.length ? " Shaded: the intervals of the federation's forecasts." : "";
    return [
      element("p", { className: "controls" }, select),
      keyOf([{ name: "load", colour: "var(--load)" }, ...lines]),
      chart,
      caption(
        "week",
        "The load of the first week of the test set, and its forecasts; each forecaster is the best of its " +
          `kind on validation.${fanned} Times are local standard time.`,
      ),
    ];
  }

  // --- two forecasters -------------------------------------------------------------------------
  const pair = { a: null, b: null, next: "a", client: "" };
  function begin() {
    const name = Object.keys(data.clients)[0];
    const own = leaders(
      cells.filter((one) => state(one) === name && !one.diverged),
      scheme,
    ).sort((x, y) => validation(x) - validation(y));
    pair.a = own[0] ?? everyone[0];
    pair.b = own[1] ?? rival(name) ?? everyone[1] ?? everyone[0];
  }
  function pick(one) {
    pair[pair.next] = one;
    const other = pair.next === "a" ? "b" : "a";
    if (state(pair[other]) !== state(one))
      pair[other] =
        leaders(
          everyone.filter((x) => state(x) === state(one) && x !== one),
          state,
        )[0] ?? one;
    pair.next = other;
    compare();
  }
  function difference() {
    const [a, b] = [pair.a, pair.b].map((one) => ofModel(one)?.[view.score]);
    if (!a || !b || pair.a.diverged || pair.b.diverged) return null;
    const rows = data.clients[state(pair.a)]
      .map((client, i) => ({ client, a: a[i], b: b[i], value: a[i] == null || b[i] == null ? null : b[i] - a[i] }))
      .filter(({ value }) => value != null);
    const list = rows.map(({ value }) => value);
    // Stored means have more digits than the clients' values.
    const [first, second] = [pair.a, pair.b].map((one) => ofModel(one, view.model, "_mean")[view.score]),
      centre = second - first;
    const [own, other] = [pair.a, pair.b].map((one) => ofModel(one, view.model, "_seeds")?.[view.score]);
    // A baseline has no seeds: the same value is compared with each seed of the other side.
    const bySeed = (own ?? other ?? []).map(
      (_, i) => (other ? other[i] : mean(rows.map((row) => row.b))) - (own ? own[i] : mean(rows.map((row) => row.a))),
    );
    return { rows: rows.sort((x, y) => y.value - x.value), centre, reach: reach(list, bySeed), bySeed };
  }
  // Half the width of the interval over clients, weeks and seeds, as in plfl.results.statistics. Only
  // MASE is known by week.
  function reach(byClient, bySeed) {
    const [a, b] = [pair.a, pair.b].map((one) => ofModel(one, view.model, "_blocks"));
    if (view.score !== "mase" || byClient.length < 2 || !a || !b || a.length !== b.length) return null;
    const parts = [byClient, a.map((value, i) => b[i] - value), bySeed]
      .filter((list) => list.length > 1)
      .map((list) => ({ variance: deviation(list) ** 2 / list.length, freedom: list.length - 1 }));
    const sum = (list) => list.reduce((x, y) => x + y, 0),
      whole = sum(parts.map(({ variance }) => variance));
    if (!whole) return 0;
    const joint = {
      variance: whole,
      freedom: whole ** 2 / sum(parts.map(({ variance, freedom }) => variance ** 2 / freedom)),
    };
    return Math.max(...[joint, ...parts].map(({ variance, freedom }) => student(freedom) * Math.sqrt(variance)));
  }
  // Quantiles of Student's t are nearly linear in 1 / freedom.
  function student(freedom) {
    const low = Math.min(Math.floor(freedom), data.t.length - 1),
      high = Math.min(low + 1, data.t.length - 1);
    const share = high > low ? (1 / low - 1 / freedom) / (1 / low - 1 / high) : 0;
    return data.t[low] + share * (data.t[high] - data.t[low]);
  }
  function compare() {
    const box = document.querySelector("#compare .live");
    if (!box) return;
    for (const side of ["a", "b"]) box.querySelector(`[name=${side}]`).value = pair[side].id;
    const area = box.querySelector(".result"),
      width = area.clientWidth,
      found = difference();
    const choice = box.querySelector("[name=client]"),
      clients = Object.entries(data.weeks[state(pair.a)]?.clients ?? {})
        .filter(([, { lines }]) => pair.a.id in lines && pair.b.id in lines)
        .map(([client]) => client);
    if (!clients.includes(pair.client)) pair.client = clients[Math.floor((clients.length - 1) / 2)] ?? "";
    fill(
      choice,
      clients.map((client) => [client, client]),
      pair.client,
    );
    choice.parentElement.hidden = clients.length < 2;
    const nodes = [];
    if (state(pair.a) !== state(pair.b)) nodes.push(note("A and B must be of the same state."));
    else if (!found) nodes.push(note("One of the two diverged, or has no such score."));
    else {
      const { rows, centre, reach, bySeed } = found,
        overall = `all ${rows.length} ${participant}s`;
      const ends = reach == null ? "" : ` [${signed(centre - reach)}, ${signed(centre + reach)}]`;
      nodes.push(
        paragraph(
          `${scored()}, B − A, mean over ${participant}s: ${signed(centre)}${ends}. ` +
            `${centre > 0 ? "A" : "B"} has the lower error` +
            `${reach != null && Math.abs(centre) <= reach ? ", but the interval contains 0" : ""}.`,
        ),
      );
      const all = [
        { client: overall, value: centre, text: `${overall}\nB − A ${signed(centre)}${ends}` },
        ...rows.map((row) => ({
          ...row,
          text: `${row.client}\nB − A ${signed(row.value)}\nA ${print(row.a)}, B ${print(row.b)}`,
        })),
      ];
      const chart = Plot.plot({
        width,
        height: 70 + 20 * all.length,
        marginLeft: aside(
          all.map(({ client }) => client),
          width,
        ),
        marginTop: 34,
        style: STYLE,
        x: {
          label: `← B better · ${about().label}, B − A · A better →`,
          labelAnchor: "center",
          axis: "top",
          grid: true,
          nice: true,
          ticks: width < 560 ? 4 : 8,
        },
        y: { type: "band", domain: all.map(({ client }) => client), label: null, tickSize: 0 },
        marks: [
          Plot.ruleX([0], { stroke: "currentColor" }),
          reach == null
            ? null
            : Plot.link([0], {
                x1: () => centre - reach,
                x2: () => centre + reach,
                y1: () => overall,
                y2: () => overall,
                strokeWidth: 3,
                stroke: "var(--mark)",
              }),
          Plot.dot(bySeed, { x: (v) => v, y: () => overall, symbol: "times", r: 3, stroke: "currentColor" }),
          Plot.dot(rows, {
            x: "value",
            y: "client",
            r: 4,
            fill: ({ value }) => (value > 0 ? "var(--side-a)" : "var(--side-b)"),
            symbol: ({ value }) => (value > 0 ? "circle" : "square"),
          }),
          Plot.dot([0], { x: () => centre, y: () => overall, r: 6, symbol: "diamond", fill: "var(--mark)" }),
          pointed(all, { x: "value", y: "client" }),
        ],
      });
      nodes.push(...operable(chart, `Forest plot of the ${participant}s of A and B`));
      nodes.push(
        note(
          "Diamond: the mean" +
            (reach == null
              ? "; only differences of MASE have an interval, because only MASE is known week by week"
              : ` with its 95 % interval over ${participant}s, weeks and seeds, the same as that of plfl compare`) +
            (data.seeds > 1
              ? "; crosses: the means of the seeds. "
              : "; one seed, so the variation over trainings is unknown. ") +
            "It is not corrected for the number of comparisons that you look at.",
        ),
      );
      if (pair.client) {
        const sides = [
          ["a", "var(--side-a)"],
          ["b", "var(--side-b)"],
        ];
        const name = state(pair.a),
          own = weekOf(name, pair.client);
        const lists = [own.load, ...sides.map(([side]) => own.line(String(pair[side].id)))]
          .filter(Boolean)
          .flat()
          .filter(Number.isFinite);
        const domain = [Math.min(0, ...extent(lists)), extent(lists)[1]];
        const row = element("div", { className: "sides" });
        row.append(...sides.map(() => element("div")));
        area.replaceChildren(row);
        for (const [k, [side, colour]] of sides.entries()) {
          const cell = row.children[k];
          const lines = [
            { key: String(pair[side].id), name: side.toUpperCase(), colour },
            { key: "persistence", name: "persistence", colour: "var(--naive)" },
          ];
          const plot = own.line(lines[0].key)
            ? weekChart(cell.clientWidth, name, pair.client, lines, { domain })
            : null;
          cell.append(
            heading(`${side.toUpperCase()}: ${pair[side].name}`),
            ...(plot
              ? [
                  keyOf([{ name: "load", colour: "var(--load)" }, ...lines]),
                  ...operable(plot, `Week of ${pair.client}, ${side.toUpperCase()}`),
                ]
              : [note("The report has no week of this forecaster.")]),
          );
        }
        nodes.push(
          heading(`The first week of the test set, ${pair.client}, seed ${data.first_seed}: local models`),
          row,
        );
      }
    }
    area.replaceChildren(...nodes);
  }
  const extent = (list) =>
    list.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);

  // --- the page --------------------------------------------------------------------------------
  function element(tag, properties = {}, ...children) {
    const found = Object.assign(document.createElement(tag), properties);
    found.append(...children);
    return found;
  }
  const note = (text) => element("p", { className: "note" }, text);
  const caption = (id, text) =>
    element("p", { className: "note" }, element("b", {}, `${id}.`), ` ${data.sample ? "Sample data. " : ""}${text}`);
  const paragraph = (text) => element("p", {}, text);
  const heading = (text) => element("p", { className: "head" }, text);
  function fill(select, options, value) {
    select.replaceChildren(
      ...options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)),
    );
    select.value = value;
  }
  function choice(text, name, options, value, change) {
    const select = element("select", { name, ariaLabel: text });
    fill(select, options, value);
    select.addEventListener("change", () => change(select.value));
    return element("label", {}, `${text} `, select);
  }
  function tick(text, name, change) {
    const box = element("input", { type: "checkbox", name, checked: view[name] });
    box.addEventListener("change", () => change(box.checked));
    return element("label", {}, box, ` ${text}`);
  }
  /** A chart that shows its values by pointer or arrow keys; `choose` is called at a click or Enter. */
  function operable(plot, name, choose) {
    const svg = plot.matches("svg") ? plot : (plot.querySelector("svg:last-of-type") ?? plot);
    const told = element("output", { className: "told" });
    svg.setAttribute("tabindex", 0);
    svg.setAttribute("role", "img");
    svg.setAttribute(
      "aria-label",
      `${name}. The arrow keys move from value to value${choose ? ", Enter chooses for the comparison" : ""}.`,
    );
    plot.addEventListener("input", () => {
      told.textContent = plot.value?.text?.replaceAll("\n", ", ") ?? "";
    });
    // A chart of several panels knows what is under the pointer only in the next frame.
    if (choose)
      svg.addEventListener("click", () => requestAnimationFrame(() => plot.value?.one && choose(plot.value.one, told)));
    let now = -1;
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" && choose && plot.value?.one) choose(plot.value.one, told);
      if (by === undefined) return;
      event.preventDefault();
      const places = spots(svg);
      if (!places.length) return;
      now = (now + by + places.length) % places.length;
      const [clientX, clientY] = places[now];
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerType: "mouse", bubbles: true }));
    });
    return [plot, told];
  }
  /** Positions of the values of a chart on the screen: its symbols, its squares, or points of a line. */
  function spots(svg) {
    const centre = (mark) => {
      const box = mark.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const marks = [
      ...svg.querySelectorAll(
        "[aria-label=dot] > *, [aria-label=cell] > rect, [aria-label=dot] circle, [aria-label=dot] path, " +
          "[aria-label=cell] rect",
      ),
    ].filter((mark) => !mark.matches("g"));
    if (marks.length) return [...new Set(marks)].map(centre);
    const line = svg.querySelector("[aria-label=line] path");
    if (!line) return [];
    const box = line.getBoundingClientRect(),
      steps = 168;
    return Array.from({ length: steps }, (_, i) => [box.x + (box.width * (i + 0.5)) / steps, box.y + box.height / 2]);
  }
  const CHARTS = { convergence, fig3_mase: grid, pareto, ranks, week };
  const NAMES = {
    convergence: "Curves over the rounds",
    fig3_mase: "Scores of the grid",
    pareto: "Scores and costs",
    ranks: "Critical-difference diagram",
    week: "A week of forecasts",
  };
  const places = new Map();
  function draw(id) {
    const box = places.get(id),
      width = Math.max(box.clientWidth, 280);
    const nodes = CHARTS[id](width)?.filter(Boolean) ?? [note("Nothing to show for this choice.")];
    const chosen = (one, told) => {
      pick(one);
      told.textContent = `${pair.next === "b" ? "A" : "B"} of the comparison: ${full(one)}`;
    };
    box.replaceChildren(
      ...nodes.flatMap((node) =>
        node.matches("svg, figure") && !node.matches("[class*=-ramp]") && "value" in node
          ? operable(node, NAMES[id], chosen)
          : [node],
      ),
    );
  }
  const redraw = () => {
    places.forEach((_, id) => draw(id));
    compare();
  };
  function clientChoices() {
    const chosen = view.where[at.state];
    return [
      ["", `mean over ${participant}s`],
      ...Object.entries(data.clients)
        .filter(([name]) => !chosen || name === chosen)
        .flatMap(([name, list]) =>
          list.map((client) => [client, values(at.state).length > 1 && !chosen ? `${name}: ${client}` : client]),
        ),
    ];
  }
  function controls() {
    const form = element("form", { className: "controls" });
    form.setAttribute("aria-label", "What the charts show");
    form.addEventListener("submit", (event) => event.preventDefault());
    const clients = choice(capital(participant), "client", clientChoices(), view.client, (value) => {
      view.client = value;
      redraw();
    });
    for (const i of varied)
      form.append(
        choice(
          axes[i].label,
          axes[i].key,
          [["", "all"], ...values(i).map((value) => [value, label(i, value)])],
          "",
          (value) => {
            if (value) view.where[i] = value;
            else delete view.where[i];
            if (i === at.state) {
              view.client = "";
              fill(clients.querySelector("select"), clientChoices(), "");
            }
            redraw();
          },
        ),
      );
    form.append(clients);
    form.append(
      choice(
        "Model",
        "model",
        models.map((model) => [model, model]),
        view.model,
        (value) => {
          view.model = value;
          redraw();
        },
      ),
    );
    if (scores.length > 1)
      form.append(
        choice(
          "Score",
          "score",
          scores.map(({ key, label: text }) => [key, text]),
          view.score,
          (value) => {
            view.score = value;
            redraw();
          },
        ),
      );
    if (coloured.length > 1)
      form.append(
        choice(
          "Colour",
          "colour",
          coloured.map((i) => [String(i), axes[i].label]),
          String(view.colour),
          (value) => {
            view.colour = Number(value);
            redraw();
          },
        ),
      );
    form.append(
      tick("logarithmic", "log", (value) => {
        view.log = value;
        redraw();
      }),
    );
    if (inner !== undefined || coloured.length > 1)
      form.append(
        tick("curves: best of each colour", "best", (value) => {
          view.best = value;
          draw("convergence");
        }),
      );
    return form;
  }
  const start = document.getElementById("controls");
  start.replaceChildren(controls());
  for (const id of Object.keys(CHARTS)) {
    const figure = document.getElementById(id);
    if (!figure) continue;
    const box = element("div", { className: "live" });
    figure.prepend(box);
    figure.classList.add("drawn");
    places.set(id, box);
  }
  const section = document.getElementById("compare");
  if (everyone.length > 1) {
    begin();
    section.hidden = document.getElementById("to-compare").hidden = false;
    const groups = (select) => {
      for (const name of Object.keys(data.clients)) {
        const group = element("optgroup", { label: name });
        group.append(
          ...everyone
            .filter((one) => state(one) === name)
            .map((one) =>
              element("option", { value: one.id }, `${values(at.state).length > 1 ? `${name}: ` : ""}${one.name}`),
            ),
        );
        select.append(group);
      }
    };
    const box = section.querySelector(".live"),
      form = element("form", { className: "controls" });
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const side of ["a", "b"]) {
      const found = choice(side.toUpperCase(), side, [], "", (value) => {
        pair.next = side;
        pick(everyone[value]);
      });
      groups(found.querySelector("select"));
      form.append(found);
    }
    form.append(
      choice(`Week of ${participant}`, "client", [], "", (value) => {
        pair.client = value;
        compare();
      }),
    );
    box.append(form, element("div", { className: "result" }));
  }
  redraw();
  let width = document.body.clientWidth,
    waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (document.body.clientWidth !== width) {
        width = document.body.clientWidth;
        redraw();
      }
    }, 150);
  });
})();
