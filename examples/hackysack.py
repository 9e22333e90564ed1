"""Hackysack, the game of Grant Olson's "Introduction to Concurrent Programming with Stackless Python", on today's CPython.

    python examples/hackysack.py [PLAYERS [SEED]]

Each player is a tasklet with a channel of its own. The player who gets the ball kicks it to another one; a player who misses it
is out, and the last one in the circle has won. The same seed gives the same game: tasklets switch where they wait, and nowhere
else. A program for Stackless runs unchanged as well: `python -m roamlet.stackless PROGRAM`.
"""

import random
import sys

import roamlet

MISSES = 0.1  # of all kicks


class Player:
    """Waits for the ball, and kicks it to another player of the circle."""

    def __init__(self, name, circle, chance):
        self.name, self.circle, self.chance = name, circle, chance
        self.ball = roamlet.channel()
        circle.append(self)

    def play(self):
        for kicker, kicks in self.ball:  # until the channel is closed
            others = [player for player in self.circle if player is not self]
            if not others:
                print(f"{self.name} has won, after {kicks} kicks")
                return
            if self.chance.random() < MISSES:
                print(f"{self.name} misses kick {kicks}, by {kicker}; {len(others)} still in the circle")
                self.circle.remove(self)
                self.ball.close()
            self.chance.choice(others).ball.send((self.name, kicks + 1))


def main():
    players = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    chance = random.Random(sys.argv[2] if len(sys.argv) > 2 else None)
    circle = []
    with roamlet.scope() as game:
        for number in range(1, players + 1):
            game.spawn(Player(f"player {number}", circle, chance).play)
        chance.choice(circle).ball.send(("the referee", 0))


if __name__ == "__main__":
    main()
