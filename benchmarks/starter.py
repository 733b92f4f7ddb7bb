"""Makes the starter models that come with plfl, and judges them on sites that took no part.

    python -m benchmarks.starter DATA OUT [--cores 16]
    python -m benchmarks.starter DATA OUT --kinds homes
    python -m benchmarks.starter DATA OUT --kinds buildings --judge
    python -m benchmarks.starter DATA OUT --shipped
    python -m benchmarks.starter DATA OUT --without london fox

DATA is as for `benchmarks.public`. OUT gets `homes.xz` and `buildings.xz`, which `plfl.public`
reads, and `starter.csv`: for each site the errors and intervals of models that were trained in the
same way on the other sites. docs/public.md has the claims. The studies `config/starter-*.yaml` make
the same files; the training is that of `plfl.public.making`. `--kinds` makes the file of a kind
alone and says whether it is the one that comes with plfl; with `--judge` its sites are judged, too.
`--shipped` trains nothing: it judges the files that come with plfl at the sites that only judge.
`--without` only makes the medians of models for these sites, `OUT/without-SITE.xz`, as the baseline
`public` reads them; with `--quantiles` also the ends of the intervals, for studies of quantiles.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks import public
from benchmarks.public import AHEADS, JUDGES_ONLY, KINDS, TEST
from plfl.public.inputs import HOURS_PER_WEEK, LeadTime, inputs_of
from plfl.public.making import gather_sites, train
from plfl.public.models import PUBLIC_LEVELS, MeterKind, booster_name, file_of, is_shipped
from plfl.public.packing import pack, unpack
from plfl.public.seen import marks_of


@dataclass(frozen=True)
class Booster:
    """One model: what it is trained on, and the quantile."""

    sites: tuple[str, ...]
    ahead: LeadTime
    level: float

    @property
    def name(self) -> str:
        """Its name in the files."""
        return booster_name(self.ahead, self.level)

    def text(self) -> str:
        """Train it; LightGBM's text."""
        places = [public.meters(site)[0] for site in self.sites]
        return train(*gather_sites(places, self.ahead), self.level)


@dataclass(frozen=True)
class Judged:
    """Models of three quantiles, whose training did not include the site."""

    site: str
    ahead: LeadTime
    texts: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """The scores of each meter by origin and weeks of readings."""
        import lightgbm

        loads, stamps, names = public.meters(self.site)
        boosters = [lightgbm.Booster(model_str=text) for text in self.texts]
        rows = []
        for number, origin in enumerate(public.ORIGINS[self.site]):
            begin = int(stamps.searchsorted(pd.Timestamp(origin), "right"))
            for meter, one in zip(names, loads, strict=True):
                for weeks in (1, 4):
                    last, lead = public.windows(
                        begin, min(TEST, len(one.load) - begin), self.ahead, one.hour
                    )
                    inputs = inputs_of(one, self.ahead, last, lead, begin - HOURS_PER_WEEK * weeks)
                    outputs = [b.predict(inputs.features, num_threads=1) for b in boosters]
                    low, median, high = np.sort(
                        [inputs.loads_of_outputs(np.asarray(out)) for out in outputs], axis=0
                    )
                    truth = one.load[last + lead]
                    naive = {"last": one.load[last], "yesterday": one.load[last + lead - 24]}
                    naive["last_week"] = one.load[last + lead - HOURS_PER_WEEK]
                    known = np.isfinite(truth + median + sum(naive.values()))
                    if known.sum() < 100:
                        continue
                    errors = {
                        name: float(np.abs(f - truth)[known].mean())
                        for name, f in {"starter": median, **naive}.items()
                    }
                    inside = (truth >= low) & (truth <= high)
                    rows.append(
                        {"site": self.site, "ahead": self.ahead, "meter": meter}
                        | {"origin": number, "weeks": weeks, **errors}
                        | {"load": float(truth[known].mean())}
                        | {"coverage": float(inside[known].mean())}
                        | {"width": float((high - low)[known].mean())}
                    )
        return rows


def left_out(site: str) -> tuple[str, ...]:
    """The sites of the same kind on which a model for this site is trained."""
    kind = public.kind_of(site)
    return tuple(other for other in KINDS[kind] if other != site and other not in JUDGES_ONLY)


def marks(sites: Sequence[str]) -> NDArray[np.uint64]:
    """The marks of the days that a model of these sites has read."""
    parts = []
    for site in sites:
        loads, stamps, _ = public.meters(site)
        parts.append(marks_of(loads, stamps.to_numpy("datetime64[s]")))
    return np.unique(np.concatenate(parts))


def shipped(kind: str) -> tuple[str, ...]:
    """The sites on which the shipped models of a kind are trained."""
    return tuple(site for site in KINDS[kind] if site not in JUDGES_ONLY)


def write_shipped(kind: MeterKind, texts: Mapping[Booster, str], out: Path) -> None:
    """Write the file of a kind, and say whether it is the one that comes with plfl."""
    texts_by_name = {b.name: text for b, text in texts.items() if b.sites == shipped(kind)}
    (out / f"{kind}.json.xz").write_bytes(lzma.compress(json.dumps(texts_by_name).encode()))
    content = pack(texts_by_name, marks(shipped(kind)))
    (out / f"{kind}.xz").write_bytes(content)
    said = "the file that comes with plfl"
    said = said if is_shipped(kind, content) else f"not {said}"
    print(f"{kind}.xz: {len(content)} bytes, {said}", flush=True)


def write_scores(scores: Iterable[list[dict[str, Any]]], out: Path) -> None:
    """Write the table of the sites' scores."""
    table = pd.DataFrame([row for rows in scores for row in rows])
    table.to_csv(out / "starter.csv", index=False, float_format="%.6g")
    print(f"starter.csv: {len(table)} rows", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, judge, and write the files."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--judge", action="store_true", help="judge the sites of --kinds")
    parser.add_argument("--shipped", action="store_true", help="judge the files of the package")
    parser.add_argument("--without", nargs="+", choices=[*public.TABLES])
    parser.add_argument("--quantiles", action="store_true", help="all quantiles of --without")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    public.prepare(options.data, options.out / "models")
    if options.without:
        for site in options.without:
            levels = PUBLIC_LEVELS if options.quantiles else (0.5,)
            boosters = [Booster(left_out(site), ahead, q) for ahead in AHEADS for q in levels]
            content = pack({b.name: b.text() for b in boosters}, marks(left_out(site)))
            (options.out / f"without-{site}.xz").write_bytes(content)
            print(f"without-{site}.xz: {time.monotonic() - started:.0f} s", flush=True)
        return
    if options.shipped:
        models = {kind: unpack(file_of(kind).read_bytes())[0] for kind in options.kinds}
        judged = [
            Judged(site, ahead, tuple(models[kind][booster_name(ahead, q)] for q in PUBLIC_LEVELS))
            for ahead in AHEADS
            for site in JUDGES_ONLY
            if (kind := public.kind_of(site)) in models
        ]
        write_scores(map(Judged.rows, judged), options.out)
        return
    judges = options.judge or len(options.kinds) == len(KINDS)
    everyone = [site for kind in options.kinds for site in KINDS[kind]] if judges else []
    trained_on = dict.fromkeys([*map(shipped, options.kinds), *map(left_out, everyone)])
    boosters = [
        Booster(sites, ahead, level)
        for level in (0.5, 0.1, 0.9)  # the slowest first
        for sites in trained_on
        for ahead in AHEADS
    ]
    with ProcessPoolExecutor(
        options.cores, initializer=public.prepare, initargs=(options.data, options.out / "models")
    ) as pool:
        texts = dict(zip(boosters, pool.map(Booster.text, boosters), strict=True))
        print(f"{len(texts)} models, {time.monotonic() - started:.0f} s", flush=True)
        for kind in options.kinds:
            write_shipped(kind, texts, options.out)
        if not judges:
            return
        judged = [
            Judged(
                site, ahead, tuple(texts[Booster(left_out(site), ahead, q)] for q in PUBLIC_LEVELS)
            )
            for site in everyone
            for ahead in AHEADS
        ]
        write_scores(pool.map(Judged.rows, judged), options.out)


if __name__ == "__main__":
    main()
