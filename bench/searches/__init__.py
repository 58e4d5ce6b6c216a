"""How long do searches take, and how good is what they choose?"""
