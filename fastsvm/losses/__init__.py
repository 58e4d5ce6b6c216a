"""Losses, each imported here by a name. To add one, see `fastsvm.losses.interface`; `check_loss` checks it."""

from fastsvm.losses.check import check_loss as check_loss
from fastsvm.losses.chosen import chosen_loss as chosen_loss
from fastsvm.losses.classes import CrammerSinger as CrammerSinger
from fastsvm.losses.classes import Softmax as Softmax
from fastsvm.losses.classes import WestonWatkins as WestonWatkins
from fastsvm.losses.interface import *  # noqa: F403
from fastsvm.losses.labels import Hinge as Hinge
from fastsvm.losses.labels import Log as Log
from fastsvm.losses.labels import ModifiedHuber as ModifiedHuber
from fastsvm.losses.labels import SquaredHinge as SquaredHinge
from fastsvm.losses.numbers import EpsilonInsensitive as EpsilonInsensitive
from fastsvm.losses.numbers import Huber as Huber
from fastsvm.losses.numbers import Squared as Squared
from fastsvm.losses.numbers import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
from fastsvm.losses.rows import *  # noqa: F403
