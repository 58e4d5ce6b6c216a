"""The records of all rooms but those of kernels and of linear machines, which have files of their own."""

from typing import NamedTuple


class ProductsTuning(NamedTuple):
    """How much of a product is a piece of work. No result depends on it beyond rounding."""

    # A tile of a factorization has so many rows and columns, and rows of a kernel matrix are drawn so many at a time.
    tile: int = 192
    # A thread computes products, scores or sums of so many rows at a time.
    piece_rows: int = 1024


class StorageTuning(NamedTuple):
    """How much of rows and files is read, copied or held at once. Bytes are those of the rows as they are stored."""

    # A block of rows of a file, or a chunk of a file that is written, has about so many bytes.
    block_bytes: int = 4 << 20
    # It has at most one part in so many of all rows of its file, or one would be read long before others.
    least_blocks: int = 16
    # What is copied, converted, hashed or summed at once has about so many bytes, which stay near the processor.
    piece_bytes: int = 1 << 20
    # A block or run has at least so many bytes, or calls of HDF5 would take longer than the reading.
    run_bytes: int = 1 << 16
    # A block of rows in memory has so many rows: work once per block, such as preparing support vectors, is cheap.
    resident_rows: int = 4096
    # A window has at least so many runs: new windows in each epoch save dual ascent nine of ten epochs.
    runs: int = 8
    # A block may take one part in so many of the memory, as three or four are there at once.
    block_share: int = 32
    # So may a window of blocks, of which three are there at once, or rows of tiles that are unpacked together.
    window_share: int = 8
    # So may what is there packed, unpacked and copied, or beside all that a fit needs.
    loaded_share: int = 3


class Limits(NamedTuple):
    """What a file may make a reader do before it has shown as much content. Real files stay far below."""

    # So many bytes may be declared, or unpickled, whatever a file stores. Fill values take none.
    bytes: int = 1 << 28
    # Beyond these, so many bytes may be declared for each that is stored. That of gzip is at most 1,032.
    ratio: int = 4096
    # A header, or content that is searched or read whole, has at most so many bytes, which takes tenths of a second.
    read_bytes: int = 64 << 20
    # An archive has at most so many members, or a list so many names.
    entries: int = 10_000
    # There are at most so many classes, and a label has at most so many bytes.
    labels: int = 1 << 16
    # A pickle takes at most so many steps, twenty times the number of a published batch of CIFAR-10.
    steps: int = 1 << 20
    # A message names at most so many of the things that are wrong.
    shown: int = 20
    # It has at most so many letters of what cannot be a name or a number.
    letters: int = 40


class SGDTuning(NamedTuple):
    """How steps on mini-batches are taken. Each of the first four says whether a way may be taken."""

    # Features that occur in one row only are merged to one feature a row.
    private: bool = True
    # Steps on rows of few nonzero values touch only their columns; else rows are made dense.
    lazy: bool = True
    # A loop of its own takes such steps on batches of one row.
    single_rows: bool = True
    # Scores whose losses are apart take their steps apart, so that threads share them.
    apart: bool = True
    # Features are merged if the problem lacks this share of them then.
    private_share: float = 0.25
    # Rows of few nonzero values have more than so many features for each of them.
    features_of_value: int = 8
    # With a loss of all classes at once they have more than so many: at 40, batches of dense rows took .4 to .6 of the
    # time, at 80 as long, at 160 up to twice as long.
    features_of_classes: int = 80
    # A thread takes the steps of so many scores.
    scores: int = 8
    # A mini-batch has so many rows by default, and fewer if there are few rows, of which equal ones are merged.
    batch: int = 32
    few_rows: int = 256
    batch_of_few: int = 8
    # A window of rows in memory has so many bytes, between two readings of the clock.
    window_bytes: int = 32 << 20
    # An epoch is taken to have so many steps where the amount of data is unknown.
    stream_steps: int = 1000
    # A step on a row alone changes its score by `FIRST_STEP` sizes of a score, and by so much at most if others are
    # unlike it: if their mean squared cosine is below `similar`, which is measured on `paired` rows.
    most_gain: float = 3.0
    similar: float = 0.1
    paired: int = 128
    # A step on a batch is at most so many times as long as one on a row.
    longest: float = 100 / 3
    # The square of the constant feature, whose weight is the intercept, is this share of the rows' squared norm.
    intercept_share: float = 0.1
    # First rates by feature are divided by this. CIFAR-10 would have a larger one, random walks a smaller one.
    caution: float = 3.0


class NystroemTuning(NamedTuple):
    """How landmarks are chosen, and features stored and read. The first two say whether a way may be taken."""

    # Rows are learnt in an order that mixes classes; else in their own order.
    mixed: bool = True
    # Features of bounded kernels are in half precision where memory does not hold more of them.
    halves: bool = True
    # Up to so many values, features are in double precision, which costs little then.
    exact_values: int = 1 << 22
    # `n_components="auto"` is the smallest of `first`, twice as many, ... `most`, whose trace error, measured on
    # `sample_rows` rows, is at most `trace_error`. The docstrings of the estimators say so.
    first: int = 64
    most: int = 2048
    trace_error: float = 0.01
    sample_rows: int = 1024
    # Pivots are drawn from so many rows for each landmark, as the docstrings of the estimators say.
    pool: int = 16
    # Support vectors are sought among so many rows for each landmark, and among `most` at least. Each of these rows
    # takes so many bytes beside its own.
    learnt: int = 10
    learnt_bytes: int = 512
    # They are those of a machine of this tolerance. A smaller one would change few of them.
    support_tol: float = 1e-3
    # So many distant runs of a file are mixed.
    runs: int = 32


class SearchTuning(NamedTuple):
    """Which fits of a search share kernel values."""

    # Fits with one kernel share its values; else each computes its own.
    shared: bool = True
    # With so many pairs of classes, each of at most so many rows, one compiled call solves all pairs of a fit alone.
    many_pairs: int = 45
    few_rows: int = 128
    # A multiplier takes so many bytes, with the number, label, bound and gradient of its row.
    multiplier_bytes: int = 48


class ClusterTuning(NamedTuple):
    """What a client asks of a cluster, and how long it waits."""

    # A task that raised an error is tried again so many times.
    retries: int = 3
    # After so many seconds of waiting, the client looks whether there are workers. After so many looks in a row that
    # find none that takes tasks, the fit ends: a client may sleep in between.
    look_s: float = 5.0
    looks: int = 12
    # Each thread of the cluster gets so many machines at once.
    batch: int = 4
    # The states of shards are kept after so many rounds, or after so many bytes were told.
    kept_rounds: int = 10
    kept_bytes: int = 1 << 27
    # Dask writes results to disk from this share of the memory of a worker on, or .7.
    spilled: float = 0.6


class JobsTuning(NamedTuple):
    """How often a job speaks, saves and tries again, and how much it does in between. Times are in seconds."""

    # A block of rows that are predicted, or written in another order, has at most so many rows.
    block_rows: int = 16_384
    # It has at most so many decision values, which take 64 MiB.
    decisions: int = 1 << 23
    # Where there is no terminal, a line says every so often how far a job is. A full disk is given as much time.
    say_s: float = 30.0
    # The log gets an event of progress, and predictions a journal, no more often than this.
    log_s: float = 2.0
    # A step that a signal should end may take so long. As long is waited before writing is tried again.
    wait_s: float = 1.0
    # Saving what is done so far may take this share of the time.
    save_share: float = 0.02
    # A search may take this share of the limit of time, and its samples as much of the memory.
    search_share: float = 0.5
    # A run keeps so many checkpoints, for the last one may be damaged.
    checkpoints: int = 2
    # The samples of so many classes are counted where a file is described.
    counted_classes: int = 50
    # Code is compiled for so few samples, whose kernel values are float64, and for so many, which fit no working set.
    warm_few: int = 300
    warm_many: int = 5000
    # Samples have so many features then, enough for products of bytes. Further epochs run the same code.
    warm_features: int = 40
    warm_epochs: int = 5


class Look(NamedTuple):
    """How pictures of models and reports look. Lengths are in pixels of a chart, which browsers scale."""

    # A chart is so wide, and 9/16 as high.
    width: int = 480
    # A line of text is so high, and its letters half as wide.
    line: int = 16
    # An axis has about so many ticks, and a legend names so many curves.
    ticks: int = 6
    # More points are smaller, drawn faintly and, in a chart, thinned out.
    points: int = 2000
    # The points of a curve are marked if there are fewer.
    marked: int = 40
    # So many curves of two-class problems are drawn, and so many means of losses and speeds.
    curves: int = 100
    # Objectives whose quotient is larger are drawn on a logarithmic axis.
    wide: float = 50.0
    # Gaps below this share of the tolerance, as exact steps leave, are drawn there.
    below: float = 0.01
    # Beyond the points, this share of their range is shown on each side, as Matplotlib does.
    padding: float = 0.05
    # Numbers have so many digits. Longer names of columns are vertical.
    digits: int = 4
    # Samples may be images from this side on, and are drawn with this side at most.
    least_side: int = 8
    most_side: int = 96
    # In images, neighbours differ by less than this share of the difference of other pixels.
    smooth: float = 0.8
    # An image takes this share of the side of its cell in a matrix.
    cell: float = 0.66
    # The deepest shade of a class has this share of its colour, and the tube of a regression the other.
    tint: float = 0.5
    tube: float = 0.18
