"""The actions of ``headway preset`` beyond listing and showing: a module for each, or for those that are alike."""
