from prefer_spot import PreferSpot

from scheduler.testing import check_plugin


def test_prefer_spot_keeps_the_contract():
    check_plugin(PreferSpot())
